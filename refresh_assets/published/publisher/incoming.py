"""A published file while it arrives: hashed as it is written to a temporary name of the cache's folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from refresh_assets.published.publisher.cache_files import INCOMING_PREFIX, CacheError, disk_errors

HEAD_BYTES = 1024
_BUFFER = 1 << 20


class Incoming:
    """Takes the blocks of one file; `sha256` and `size` in bytes are those of what came, `head` is its beginning."""

    def __init__(self, file: BinaryIO, path: Path, max_bytes: int) -> None:
        self._file = file
        self._path: Path | None = path
        self._folder = path.parent
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()
        self.size = 0
        self.head = b""

    @classmethod
    def open(cls, folder: Path, max_bytes: int) -> Incoming:
        with disk_errors(folder):
            handle, name = tempfile.mkstemp(prefix=INCOMING_PREFIX, dir=folder)
            return cls(os.fdopen(handle, "wb", buffering=_BUFFER), Path(name), max_bytes)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def announce(self, size: int) -> None:
        """Refuse a file that is announced larger than the cache may be, before it is fetched. Raises CacheError."""
        if size > self._max_bytes:
            raise CacheError(
                f"the published file has {size} bytes or more; REFRESH_CACHE_BYTES allows {self._max_bytes}: raise it"
            )

    def write(self, block: bytes) -> None:
        """Append a block. Raises CacheError where the file becomes too large or the disk refuses it."""
        self.announce(self.size + len(block))
        if len(self.head) < HEAD_BYTES:
            self.head += block[: HEAD_BYTES - len(self.head)]
        self._digest.update(block)
        with disk_errors(self._folder):
            self._file.write(block)
        self.size += len(block)

    def restart(self) -> None:
        """Forget what was written: the file is being fetched anew."""
        with disk_errors(self._folder):
            self._file.seek(0)
            self._file.truncate()
        self._digest = hashlib.sha256()
        self.size = 0
        self.head = b""

    def flush(self) -> None:
        """Bring what was written to the disk itself. Raises OSError."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def rename(self, target: Path) -> None:
        """Give the file its lasting name. Raises OSError."""
        if self._path is not None:
            # An open file cannot be renamed on Windows.
            self._file.close()
            self._path.replace(target)
            self._path = None

    def close(self) -> None:
        """Close the file, and remove it unless it was renamed."""
        # What is still to be written is not wanted any more, and a full disk would complain about it again.
        with contextlib.suppress(OSError):
            self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

"""What lies in the cache's folder: a file under its sha256, and beside it a sidecar that says what it is."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from refresh_assets.errors import RefreshError

INCOMING_PREFIX = "incoming-"
_SUFFIX = ".json"
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is too large for the system's limits",
}


class CacheError(RefreshError):
    """A published file cannot be kept; the text names the folder or the setting."""


@dataclass(frozen=True)
class CachedFile:
    """A published file on disk, as it was hashed; `rows` is the manifest's count, `fetched_at` an aware UTC time."""

    path: Path
    name: str
    sha256: str
    rows: int
    bytes: int
    fetched_at: datetime


@dataclass(frozen=True)
class Sidecar:
    """What is remembered of a file: its source's address, its last change on disk, and when it was last used."""

    cached: CachedFile
    source: str
    mtime_ns: int
    used: float

    @staticmethod
    def path(folder: Path, sha256: str) -> Path:
        return folder / f"{sha256}{_SUFFIX}"

    @classmethod
    def read(cls, folder: Path, sha256: str) -> Sidecar | None:
        """Return the sidecar of a digest, or None where there is none that can be read."""
        path = cls.path(folder, sha256)
        try:
            used = path.stat().st_mtime
            data = json.loads(path.read_text(encoding="utf-8"))
            cached = CachedFile(
                path=folder / sha256,
                name=str(data["name"]),
                sha256=sha256,
                rows=int(data["rows"]),
                bytes=int(data["bytes"]),
                fetched_at=datetime.fromisoformat(data["fetched_at"]),
            )
            return cls(cached, str(data["source"]), int(data["mtime_ns"]), used)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def read_all(cls, folder: Path) -> list[Sidecar]:
        names = (path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))
        return [sidecar for sidecar in (cls.read(folder, name) for name in names) if sidecar is not None]

    @classmethod
    def write(cls, cached: CachedFile, source: str) -> None:
        """Write or replace the sidecar of a file that is in its place. Raises OSError."""
        data = {
            "name": cached.name,
            "sha256": cached.sha256,
            "rows": cached.rows,
            "bytes": cached.bytes,
            "fetched_at": cached.fetched_at.isoformat(),
            "source": source,
            "mtime_ns": cached.path.stat().st_mtime_ns,
        }
        folder = cached.path.parent
        handle, name = tempfile.mkstemp(prefix=INCOMING_PREFIX, dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(cls.path(folder, cached.sha256))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def touch(self) -> None:
        """Count the file as used now."""
        with contextlib.suppress(OSError):
            os.utime(self.path(self.cached.path.parent, self.cached.sha256))


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses into a CacheError that says which folder and what to do."""
    try:
        yield
    except OSError as error:
        what = _FULL.get(error.errno or 0) or error.strerror or type(error).__name__
        advice = "make room or point REFRESH_HOME elsewhere" if error.errno in _FULL else "see REFRESH_HOME"
        raise CacheError(f"cannot keep published files in {folder}: {what}; {advice}") from error

"""Published files on disk, each under its sha256, so that what did not change is not fetched again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from refresh_assets.published.publisher.cache_files import INCOMING_PREFIX, CachedFile, CacheError, Sidecar, disk_errors
from refresh_assets.published.publisher.incoming import Incoming

STALE_SECONDS = 3600.0
"""Age at which a half file of a killed process is removed, and for which the newest file of a name is never pruned."""

_SHA256 = re.compile("[0-9a-f]{64}")
_LOCK_SECONDS = 60.0
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Cache:
    """A folder of published files, bounded in number and bytes; any number of processes may share it."""

    folder: Path
    max_files: int
    max_bytes: int

    def get(self, sha256: str) -> CachedFile | None:
        """Return the file of that digest and count it as used now, or None.

        What was changed on disk since it was kept is hashed again, and removed where it is another file now.
        """
        if not _SHA256.fullmatch(sha256):
            return None
        with self._locked():
            sidecar = Sidecar.read(self.folder, sha256)
            if sidecar is None or not self._sound(sidecar):
                self._remove(sha256)
                return None
            sidecar.touch()
            return sidecar.cached

    def list(self) -> tuple[CachedFile, ...]:
        """Return all files, the one used last first."""
        sidecars = sorted(Sidecar.read_all(self.folder), key=lambda x: x.used, reverse=True)
        return tuple(x.cached for x in sidecars if x.cached.path.exists())

    def put(self, name: str, rows: int, source: str, blocks: Iterable[bytes]) -> CachedFile:
        """Keep a file. Raises CacheError where it is too large or the disk refuses it; then nothing is kept."""
        with self.incoming() as incoming:
            for block in blocks:
                incoming.write(block)
            return self.keep(incoming, name, rows, source)

    @contextlib.contextmanager
    def incoming(self) -> Iterator[Incoming]:
        """Open a temporary file of the folder to write to; it is gone afterwards unless `keep` was called."""
        self._make_folder()
        with contextlib.closing(Incoming.open(self.folder, self.max_bytes)) as incoming:
            yield incoming

    def keep(self, incoming: Incoming, name: str, rows: int, source: str) -> CachedFile:
        """Keep what was written under its digest, durably, and prune what is over the bounds."""
        with disk_errors(self.folder):
            incoming.flush()
        cached = CachedFile(
            path=self.folder / incoming.sha256,
            name=name,
            sha256=incoming.sha256,
            rows=rows,
            bytes=incoming.size,
            fetched_at=datetime.now(timezone.utc),
        )
        with self._locked(), disk_errors(self.folder):
            incoming.rename(cached.path)
            Sidecar.write(cached, source)
            self._prune(cached.sha256)
        return cached

    def describe(self, cached: CachedFile, name: str, rows: int) -> CachedFile:
        """Return a file under the name and count that the manifest gives it now, and remember them."""
        if (cached.name, cached.rows) == (name, rows):
            return cached
        changed = replace(cached, name=name, rows=rows)
        with self._locked(), disk_errors(self.folder):
            sidecar = Sidecar.read(self.folder, cached.sha256)
            if sidecar is not None:
                Sidecar.write(changed, sidecar.source)
        return changed

    def _make_folder(self) -> None:
        with disk_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix" and self.folder.stat().st_mode & 0o077:
                self.folder.chmod(0o700)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._make_folder()
        lock = FileLock(self.folder / ".lock")
        with disk_errors(self.folder):
            try:
                lock.acquire(timeout=_LOCK_SECONDS)
            except Timeout:
                raise CacheError(
                    f"{self.folder}: time-out, another process has held the lock of this folder for "
                    f"{_LOCK_SECONDS:.0f} s"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def _sound(self, sidecar: Sidecar) -> bool:
        """Tell whether the file on disk is the one that was kept."""
        path = sidecar.cached.path
        try:
            status = path.stat()
            if status.st_size != sidecar.cached.bytes:
                return False
            if status.st_mtime_ns == sidecar.mtime_ns:
                return True
            with path.open("rb") as file:
                if _digest(file) != sidecar.cached.sha256:
                    return False
            Sidecar.write(sidecar.cached, sidecar.source)
        except OSError:
            return False
        return True

    def _remove(self, sha256: str) -> None:
        for path in (Sidecar.path(self.folder, sha256), self.folder / sha256):
            # A file that is open cannot be removed on Windows; it goes another time.
            with contextlib.suppress(OSError):
                path.unlink()

    def _prune(self, just_kept: str) -> None:
        """Remove what was used least recently until the bounds hold, and what killed processes left.

        Of each name the file used last stays for an hour: another process may be about to read it.
        """
        now = time.time()
        sidecars = sorted(Sidecar.read_all(self.folder), key=lambda x: (x.cached.sha256 == just_kept, x.used))
        newest = {x.cached.name: x for x in sidecars}
        files, size = len(sidecars), sum(x.cached.bytes for x in sidecars)
        for sidecar in sidecars[:-1]:
            if files <= self.max_files and size <= self.max_bytes:
                break
            if newest[sidecar.cached.name] is sidecar and now - sidecar.used < STALE_SECONDS:
                continue
            self._remove(sidecar.cached.sha256)
            files, size = files - 1, size - sidecar.cached.bytes
        self._remove_leftovers(now, {x.cached.sha256 for x in sidecars})

    def _remove_leftovers(self, now: float, known: set[str]) -> None:
        for path in self.folder.iterdir():
            orphan = path.name.startswith(INCOMING_PREFIX) or (
                _SHA256.fullmatch(path.name) is not None and path.name not in known
            )
            if orphan:
                with contextlib.suppress(OSError):
                    if now - path.stat().st_mtime > STALE_SECONDS:
                        path.unlink()


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()

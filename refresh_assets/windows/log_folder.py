"""Where log files are: a folder of this machine, or a web server's."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

from refresh_assets.errors import RefreshError
from refresh_assets.windows.source_settings import LogSettings

MOST_FILES = 100_000
# The clock of a file system may stand still that long while a file grows.
SETTLED_SECONDS = 2.0


@dataclass(frozen=True)
class LogFile:
    """A log file. `node` is another one where another file has taken its name.

    `version` is another one whenever its bytes are; None where that cannot be known.
    """

    name: str
    node: str
    version: str | None


class LogFolder(Protocol):
    """Log files, each to be listed and opened; `remote` ones are dear to read."""

    remote: ClassVar[bool]

    def files(self) -> list[LogFile]:
        """Return the files, by name. Raises RefreshError."""
        ...

    def open(self, file: LogFile) -> AbstractContextManager[BinaryIO]:
        """Open a file. Raises FileNotFoundError where it is gone, RefreshError otherwise."""
        ...


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine or a mounted share, or one file of it."""

    remote: ClassVar[bool] = False
    settings: LogSettings

    def files(self) -> list[LogFile]:
        path = self.settings.base.path("")
        try:
            if not self.settings.base.is_folder:
                return [_described(path.name, _file_status(path))]
            with os.scandir(path) as entries:
                wanted = [entry for entry in entries if fnmatchcase(entry.name, self.settings.pattern)]
            found = [_described(entry.name, status) for entry in wanted if (status := _status(entry)) is not None]
        except OSError as error:
            raise _cannot_read(path, error) from error
        if not found:
            raise RefreshError(
                f"no file in {path} is named {self.settings.pattern}: WINDOW_LOGS names the folder, "
                "WINDOW_LOG_FILES the files; no window was loaded as empty"
            )
        if len(found) > MOST_FILES:
            raise RefreshError(f"{path} holds {len(found)} files named {self.settings.pattern}; at most {MOST_FILES}")
        return sorted(found, key=lambda file: file.name)

    @contextmanager
    def open(self, file: LogFile) -> Iterator[BinaryIO]:
        base = self.settings.base
        path = base.path(file.name) if base.is_folder else base.path("")
        try:
            # Without waiting for a writer, should it have become a pipe.
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(handle, "rb", buffering=0) as opened:
                yield opened
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _cannot_read(path, error) from error


def _cannot_read(path: Path, error: OSError) -> RefreshError:
    reason = error.strerror or type(error).__name__
    return RefreshError(f"{path} cannot be read ({reason}); WINDOW_LOGS says where the log files are")


def _file_status(path: Path) -> os.stat_result:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise RefreshError(f"{path} is no ordinary file; WINDOW_LOGS names a folder of log files, or one file")
    return status


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return what is known of an ordinary file; None for a folder, a pipe, or what is gone by now."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _described(name: str, status: os.stat_result) -> LogFile:
    node = f"{status.st_dev}:{status.st_ino}"
    version = f"{node}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
    # Every write sets the time of change, and nobody can set it back: what is older than the clock's step is settled.
    settled = time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SECONDS
    return LogFile(name, node, version if settled else None)

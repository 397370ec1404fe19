"""Published files of this machine or of a mounted share."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.publisher.transfer import Deadline, FetchError, Progress, Sink

_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileSource:
    """The folder that a file URL names."""

    base: BaseUrl

    def fetch(
        self, name: str, sink: Sink, deadline: Deadline, progress: Progress | None = None, *, fresh: bool
    ) -> None:
        """Copy a file into the sink.

        Raises FetchError where it is absent, no ordinary file, unreadable, or not read in time.
        """
        del fresh  # nothing stands between the file and its reader
        path = self.base.path(name)
        sink.restart()
        try:
            with _open(path) as file:
                total = os.fstat(file.fileno()).st_size
                sink.announce(total)
                while block := file.read(_BLOCK):
                    sink.write(block)
                    if progress is not None:
                        progress(sink.size, total)
                    if not deadline.remaining:
                        raise deadline.missed(str(path), sink.size)
        except FileNotFoundError:
            raise FetchError(f"{path} does not exist; {self.base.setting} says where the published files are") from None
        except PermissionError:
            raise FetchError(f"{path} may not be read by this account") from None
        except OSError as error:
            raise FetchError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error


def _open(path: Path) -> BinaryIO:
    """Open an ordinary file; a pipe or a device would keep its reader waiting for ever."""
    # Opened without waiting for a writer, so that what it is can be asked of the very file that is read.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb", buffering=0)
    os.close(handle)
    kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise FetchError(f"{path} is {kind}, not a file")

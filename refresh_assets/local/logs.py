"""Log files of the children, bounded in size: each is rotated at its start and as it grows."""

from __future__ import annotations

import re
import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 5_000_000
KEPT = 3
TAIL_LINES = 20
TAIL_BYTES = 16_000
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


class BoundedLog:
    """A file and at most KEPT - 1 earlier ones beside it (`.1` the youngest), none larger than MAX_BYTES."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._rotate()

    def copy(self, source: IO[bytes]) -> threading.Thread:
        """Copy `source` into the log until it ends, in a thread of its own, which is returned."""
        thread = threading.Thread(target=self._copy, args=(source,), name=f"log {self.path.name}", daemon=True)
        thread.start()
        return thread

    def tail(self) -> str:
        """Return the last lines, for a person who is told that something ended."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-TAIL_LINES:])

    def _copy(self, source: IO[bytes]) -> None:
        file = self.path.open("ab")
        try:
            for raw in iter(lambda: source.readline(self._max_bytes), b""):
                line = _COLOURS.sub(b"", raw)
                if file.tell() + len(line) > self._max_bytes:
                    file.close()
                    self._rotate()
                    file = self.path.open("ab")
                file.write(line)
                file.flush()
        except OSError:
            # A full disk must not stop the child: it would wait for ever for a reader of its pipe.
            for _ in iter(lambda: source.read(65536), b""):
                pass
        finally:
            file.close()
            source.close()

    def _rotate(self) -> None:
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, KEPT))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)

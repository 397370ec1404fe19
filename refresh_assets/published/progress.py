"""How far a long transfer or load has come, told at sensible intervals and to whoever watches this process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

FIRST_SECONDS, MOST_SECONDS = 10.0, 60.0
"""The first line comes after so many seconds, each further one after twice the time, up to a minute."""

Watcher = Callable[[str, int, "int | None"], None]
"""Called with what is done (`datasets.csv: staged`), the bytes so far, and all bytes where they are known."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("progress watcher", default=None)


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Show every block's progress to the watcher, for as long as this lasts."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@dataclass
class Progress:
    """Takes the bytes that have come so far, and tells in lines of text how far that is.

    `what` begins the line, `all_bytes` and `all_rows` are what there is to come, where that is known.
    """

    what: str
    tell: Callable[[str], None]
    all_bytes: int | None = None
    all_rows: int | None = None
    clock: Callable[[], float] = time.monotonic
    _watcher: Watcher | None = field(init=False, default_factory=_WATCHER.get)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._wait = FIRST_SECONDS
        self._next = self._began + self._wait
        self._told = False
        self._done = 0

    def __call__(self, done: int, all_bytes: int | None = None) -> None:
        """Take note of the bytes so far; `all_bytes` where it becomes known only now."""
        self.all_bytes = all_bytes if all_bytes is not None else self.all_bytes
        if self._watcher is not None:
            self._watcher(self.what, done, self.all_bytes)
        now = self.clock()
        if done < self._done:
            # What was sent is sent once more, whole.
            self._began = now
        self._done = done
        if self._told and done == self.all_bytes:
            self.tell(f"{self.what} {megabytes(done)} in {now - self._began:.0f} s")
        elif now >= self._next:
            self.tell(self._line(done, now - self._began))
            self._told = True
            self._wait = min(2 * self._wait, MOST_SECONDS)
            self._next = now + self._wait

    def _line(self, done: int, seconds: float) -> str:
        rate = done / seconds if seconds else 0.0
        parts = [f"{self.what} {megabytes(done)}"]
        if self.all_bytes:
            parts[0] += f" of {megabytes(self.all_bytes)} ({100 * done // self.all_bytes} %)"
            if self.all_rows is not None:
                rows = self.all_rows * done // self.all_bytes
                parts.append(f"about {rows:,} of {self.all_rows:,} rows")
        parts.append(f"{megabytes(round(rate))}/s")
        if self.all_bytes and rate:
            parts.append(f"about {max(0, self.all_bytes - done) / rate:.0f} s left")
        return ", ".join(parts)


def megabytes(size: int) -> str:
    """Write a number of bytes for people: `1.3 MB`, `840 B`."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"

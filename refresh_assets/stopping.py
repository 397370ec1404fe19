"""The wish of a person or the system that a long-running command ends."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


_STEP = 0.1


@functools.cache
def parent_to_follow() -> int | None:
    """Return the process number of the `make` that started us, as it was at the first call, or None."""
    return os.getppid() if os.environ.get("MAKELEVEL") and os.getppid() > 1 else None


class Stopping:
    """Set by the first signal; a further one is a wish for haste."""

    def __init__(self) -> None:
        # A plain number: a handler that touches a lock which the interrupted code holds would wait for ever.
        self._requests = 0

    def request(self) -> None:
        self._requests += 1

    @property
    def requested(self) -> bool:
        return self._requests > 0

    @property
    def hastened(self) -> bool:
        return self._requests > 1

    def wait(self, seconds: float) -> bool:
        """Wait that long at most; return whether the end is wished for."""
        deadline = time.monotonic() + seconds
        while not self.requested and time.monotonic() < deadline:
            time.sleep(min(_STEP, seconds))
        return self.requested

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """Take SIGINT, SIGTERM and SIGHUP as the wish, also where a script's job inherited that they are ignored."""
        before = {}
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
            number = getattr(signal, name, None)
            # nohup ignores SIGHUP on purpose
            if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                continue
            before[number] = signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def by_end_of_make(self) -> Iterator[None]:
        """Below `make`, take the end of `make` or of its terminal as the wish: neither reaches us as a signal."""
        parent = parent_to_follow()
        at_terminal = sys.stdin is not None and sys.stdin.isatty()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_STEP):
                if os.getppid() != parent or (at_terminal and not os.isatty(0)):
                    self.request()
                    return

        if parent is not None:
            threading.Thread(target=watch, name="parent", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.request()

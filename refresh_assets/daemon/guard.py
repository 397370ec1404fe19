"""The guard: it looks every second whether the lease is still ours, and ends the process at once where it is not."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.lease import Lease
from refresh_assets.daemon.timing import Timing
from refresh_assets.secrets import masked

# EX_TEMPFAIL: whoever watches this process shall start it again.
LOST = 75
_LOOK = 0.1
_LAST_WORDS = 0.2


def end_at_once(why: str) -> NoReturn:
    """End the process without any cleaning up, which could take time. The reason goes to standard error."""

    def say() -> None:
        with contextlib.suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), f"refresh-assets daemon: {why}; ending at once\n".encode())

    # A reader that does not read must not hold us up.
    words = threading.Thread(target=say, daemon=True)
    words.start()
    words.join(_LAST_WORDS)
    os._exit(LOST)


class Guard:
    """Two threads: one pings, the other sees to it that an answer came in time."""

    def __init__(self, lease: Lease, timing: Timing, lost: Callable[[str], object] = end_at_once) -> None:
        self._lease = lease
        self._timing = timing
        self._lost = lost
        self._done = threading.Event()
        # When the last ping was sent that was answered well.
        self._confirmed = elapsed()
        self._pinger = threading.Thread(target=self._ping, name="lease ping", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="lease guard", daemon=True)

    def start(self) -> None:
        self._pinger.start()
        self._watcher.start()

    def stop(self) -> None:
        """Stop guarding; return when no ping is on its way any more, or after the time for an answer."""
        self._done.set()
        self._pinger.join(self._timing.answer)

    def _ping(self) -> None:
        while not self._done.is_set():
            sent = elapsed()
            try:
                held = self._lease.ping()
            except Exception as error:  # noqa: BLE001 - whatever it is, we no longer see the lock
                self._end(f"the lease's session is gone ({masked(error)})")
                return
            if not held:
                self._end("the lease is no longer held by this process")
                return
            self._confirmed = sent
            self._done.wait(max(0.0, sent + self._timing.ping - elapsed()))

    def _watch(self) -> None:
        longest = self._timing.ping + self._timing.answer
        while not self._done.wait(_LOOK):
            silent = elapsed() - self._confirmed
            if silent > longest:
                self._end(f"the database has not confirmed the lease for {silent:.1f} s")
                return

    def _end(self, why: str) -> None:
        if not self._done.is_set():
            self._lost(why)

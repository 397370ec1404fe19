"""The process that cleans up after an `up` that was killed: it ends all that is left, then the server."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from filelock import Timeout

from refresh_assets.local.only_one import lock_of
from refresh_assets.local.processes import end, marked
from refresh_assets.postgres import embedded

if TYPE_CHECKING:
    from pathlib import Path

DONE = b"done"
PATIENCE = 15.0
# The system closes a killed process's pipe a moment before it gives up its lock.
LOCK_SECONDS = 2.0


def keep(home: Path, *, server: bool) -> None:
    """Wait until `up` says that it is done or is gone; if it is gone, end its processes, and the server where told."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.stdin.buffer.read() == DONE:
        return
    try:
        # Whoever holds it now is a new `up`, which begins with the same cleaning.
        with lock_of(home).acquire(timeout=LOCK_SECONDS):
            end(lambda: marked(home), PATIENCE)
            if server:
                embedded.stop(home)
    except Timeout:
        return

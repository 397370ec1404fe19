"""Time that has passed for this host, sleep included."""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Return seconds since some instant; unlike Linux's monotonic clock it goes on while the host sleeps."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)

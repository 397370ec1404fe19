"""Waiting for a condition that something else brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(condition: Callable[[], Any], seconds: float = 60, situation: Callable[[], str] = str) -> Any:
    """Return what a condition gives as soon as that is true; fail after some seconds, and tell the situation then."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"time-out {situation()}"
        time.sleep(0.05)
    return found

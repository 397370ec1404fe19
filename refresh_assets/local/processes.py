"""Find and end every process of one home's `up`: its children, their code servers, the runs below those.

They are known by a mark in their environment, which every process hands on to those that it starts. A process number
alone would not do: it may be another program's by the time it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = "REFRESH_ASSETS_UP"
KILLED_WITHIN = 5.0
_STEP = 0.1


def mark_of(home: Path) -> str:
    """Return the value of MARK for the processes of this home."""
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def marked(home: Path) -> list[psutil.Process]:
    """Return the living processes of this home's `up`, the present one apart."""
    mark = mark_of(home)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark and is_alive(process):
                found.append(process)
    return found


def session_of(leader: int) -> list[psutil.Process]:
    """Return the living processes of the session that `leader` leads or led."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if hasattr(os, "getsid") and os.getsid(process.pid) == leader and is_alive(process):
                found.append(process)
    return found


def is_alive(process: psutil.Process) -> bool:
    """Tell whether it runs; a dead one that its parent has not collected does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def end(find: Callable[[], list[psutil.Process]], patience: float, hasten: Callable[[], bool] = lambda: False) -> bool:
    """Ask all that `find` finds to end, and kill what is left after `patience` seconds or once `hasten` says so.

    Returns whether nothing is left.
    """
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + patience
    while True:
        left = find()
        if not left:
            return True
        if time.monotonic() > deadline or hasten():
            break
        for process in set(left) - asked:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        asked.update(left)
        time.sleep(_STEP)
    deadline = time.monotonic() + KILLED_WITHIN
    while left and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(_STEP)
        left = find()
    return not left

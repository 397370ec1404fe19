"""One `up` for each home: a lock, and a file that says who holds it."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import psutil
from filelock import FileLock, Timeout

from refresh_assets.errors import RefreshError
from refresh_assets.local.processes import is_alive
from refresh_assets.local.progress import progress
from refresh_assets.stopping import parent_to_follow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from refresh_assets.local.house import House

# What a keeper needs at most to end the remains of an `up` that was killed.
CLEANING_SECONDS = 120.0


class RunsAlreadyError(RefreshError):
    """Another `up` serves this home; the text points at it."""


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock.

    `ui` is the UI's address once it answers, `parent` the process with which it ends, `ending` is set when it stops.
    """

    pid: int
    create_time: float
    ui: str | None = None
    parent: int | None = None
    ending: bool = False

    @property
    def stays(self) -> bool:
        """Whether it runs and will go on."""
        try:
            process = psutil.Process(self.pid)
            alive = is_alive(process) and abs(process.create_time() - self.create_time) < 1
        except psutil.Error:
            return False
        return alive and not self.ending and (self.parent is None or process.ppid() == self.parent)


def lock_of(home: Path) -> FileLock:
    return FileLock(home / "up.lock")


@contextmanager
def only_one(house: House) -> Iterator[None]:
    """Hold the lock of this home; where one is ending or its remains are cleaned away, wait for that.

    Raises RunsAlreadyError where another one runs.
    """
    home = house.home
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = lock_of(home)
        _acquire(lock, house)
    except OSError as error:
        raise RefreshError(
            f"the folder {home} cannot be used ({error.strerror}); set REFRESH_HOME to one that this account may write"
        ) from None
    try:
        tell(home)
        yield
    finally:
        _file(home).unlink(missing_ok=True)
        lock.release()


def tell(home: Path, *, ui: str | None = None, ending: bool = False) -> None:
    """Write down that the present process holds the lock, where its UI is, and whether it is about to end."""
    holder = Holder(os.getpid(), psutil.Process().create_time(), ui, parent_to_follow(), ending)
    unfinished = _file(home).with_suffix(".unfinished")
    unfinished.write_text(json.dumps(asdict(holder)), encoding="utf-8")
    unfinished.replace(_file(home))


def holder_of(home: Path) -> Holder | None:
    """Return who wrote last that it holds the lock; None where nobody did."""
    try:
        return Holder(**json.loads(_file(home).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _acquire(lock: FileLock, house: House) -> None:
    if _got(lock):
        return
    _refuse_beside_another(house.home)
    deadline = time.monotonic() + CLEANING_SECONDS
    with progress(house.echo, "waiting for an earlier `up` to end"):
        while not _got(lock):
            _refuse_beside_another(house.home)
            if time.monotonic() > deadline or house.stopping.requested:
                raise RefreshError(f"another process holds {lock.lock_file}; try again when it has ended")


def _refuse_beside_another(home: Path) -> None:
    holder = holder_of(home)
    if holder is not None and holder.stays:
        where = f"its UI is at {holder.ui}" if holder.ui else "its UI does not answer yet"
        raise RunsAlreadyError(
            f"refresh-assets up runs already for {home} (pid {holder.pid}); {where}. "
            "Stop it with Ctrl-C or SIGTERM, or set REFRESH_HOME for a second one"
        )


def _got(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=1)
    except Timeout:
        return False
    return True


def _file(home: Path) -> Path:
    return home / "up.json"

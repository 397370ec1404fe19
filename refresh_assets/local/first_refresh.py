"""The refresh that `up` does before it serves, so that there is something to see."""

from __future__ import annotations

import sys
import threading
import time
from subprocess import PIPE
from typing import IO, TYPE_CHECKING

from refresh_assets.local.children import close, spawn
from refresh_assets.local.logs import BoundedLog
from refresh_assets.local.processes import end, session_of
from refresh_assets.local.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refresh_assets.local.house import House

FIRST_REFRESH = (sys.executable, "-m", "refresh_assets.cli", "run")
FIRST_WINDOWS = (sys.executable, "-m", "refresh_assets.cli", "windows", "run")
FIRST_REFRESHES = (FIRST_REFRESH, FIRST_WINDOWS)
# The longest that a run may take, as in dagster.yaml.
LONGEST = 21_600.0
PATIENCE = 15.0


def refresh_once(house: House, env: Mapping[str, str], command: Sequence[str] = FIRST_REFRESH) -> None:
    """Run the command to its end or to the wish to stop, and pass its lines on.

    A failure is told and does not stop `up`: the UI shows it.
    """
    if command == FIRST_WINDOWS and not env.get("WINDOW_SOURCE", "").strip():
        return
    log = BoundedLog(house.logs / "refresh.log")
    process = spawn(list(command), env, stdout=PIPE, stderr=PIPE)
    copying = [log.copy(process.stderr)] if process.stderr else []
    if process.stdout is not None:
        copying.append(_pass_on(process.stdout, house.echo))
    deadline = time.monotonic() + LONGEST
    with progress(house.echo, "loading the windows" if command == FIRST_WINDOWS else "refreshing the tables"):
        while process.poll() is None and time.monotonic() < deadline:
            if house.stopping.wait(0.1):
                break
    ended = process.poll() is not None
    if not ended:
        house.echo("stopping the refresh …")
    end(lambda: session_of(process.pid), PATIENCE, lambda: house.stopping.hastened)
    close(process)
    for thread in copying:
        thread.join(timeout=5)
    if house.stopping.requested:
        return
    if not ended:
        house.echo(f"the refresh did not end within {LONGEST:g} seconds and was stopped; the UI shows it")
    elif process.returncode != 0:
        tail = log.tail()
        told = f"; the end of {log.path}:\n{tail}" if tail.strip() else ""
        house.echo(f"the refresh failed (exit code {process.returncode}); the UI shows it{told}")


def _pass_on(source: IO[bytes], echo: Callable[[str], None]) -> threading.Thread:
    def read() -> None:
        for line in source:
            echo(line.decode(errors="replace").rstrip("\r\n"))
        source.close()

    thread = threading.Thread(target=read, name="refresh output", daemon=True)
    thread.start()
    return thread

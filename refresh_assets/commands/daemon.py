"""The command `daemon`. Imports what it needs when it runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.daemon.timing import Timing


@click.command(short_help="Run schedules and sensors, or stand by.")
@click.option(
    "--workspace",
    "-w",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Workspace file with the code locations; may be repeated (default: the project's own).",
)
def daemon(files: tuple[Path, ...]) -> NoReturn:
    """Take part in running schedules, sensors and the queue: of all that are started, on any host, one leads."""
    from refresh_assets.daemon.timing import Timing

    serve(files, Timing())


def serve(files: Sequence[Path], timing: Timing) -> NoReturn:
    """Take part until a signal asks to stop, and end the process: status 0 after that, 1 where it could not go on."""
    import psycopg

    try:
        _run(files, timing)
    except (RefreshError, psycopg.Error) as error:
        from refresh_assets.secrets import masked

        with contextlib.suppress(OSError):
            click.echo(f"refresh-assets daemon: {masked(error)}", err=True)
        _exit(1)
    _exit(0)


def _run(files: Sequence[Path], timing: Timing) -> None:
    from refresh_assets.alerts.problems import alert_problems
    from refresh_assets.commands.quiet import quiet
    from refresh_assets.daemon.settings import read_drain
    from refresh_assets.daemon.supervise import Daemon
    from refresh_assets.instance import prepare_home
    from refresh_assets.settings import read_home
    from refresh_assets.stopping import Stopping

    quiet()
    home, drain = read_home(), read_drain()
    for problem in alert_problems():
        _say(problem)
    if not os.environ.get("DAGSTER_HOME", "").strip():
        os.environ["DAGSTER_HOME"] = str(prepare_home(home))
    stopping = Stopping()
    with stopping.by_signals():
        from refresh_assets.daemon.dagster_daemon import DagsterDaemon

        work = DagsterDaemon(files or [Path(os.environ["DAGSTER_HOME"]) / "workspace.yaml"], timing, _say)
        Daemon(work, stopping, home, _say, drain, timing).run()
    _say("stopped")


def _say(line: str) -> None:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    with contextlib.suppress(OSError, ValueError):
        click.echo(f"{now} INFO daemon: {line}")


def _exit(status: int) -> NoReturn:
    """End without waiting for threads that wait for user code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)

"""`refresh-assets up`: everything on one machine, from the database to the UI, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from refresh_assets.errors import RefreshError
from refresh_assets.instance import prepare_home
from refresh_assets.local.children import child_command, close, spawn
from refresh_assets.local.database import Database, check_settings, is_yours, open_database
from refresh_assets.local.first_refresh import FIRST_REFRESHES, refresh_once
from refresh_assets.local.house import House
from refresh_assets.local.keeper import DONE
from refresh_assets.local.mailbox import Mailbox, mailbox
from refresh_assets.local.only_one import only_one, tell
from refresh_assets.local.processes import MARK, end, mark_of, marked
from refresh_assets.local.progress import progress
from refresh_assets.local.serve import Serving
from refresh_assets.settings import read_home
from refresh_assets.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LEFTOVER_SECONDS = 15.0
# What another shell needs for the commands.
EXPORTED = (
    *("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSFILE", "LEARN_BASE", "REFRESH_HOME"),
    *("WINDOW_SOURCE", "WINDOW_START", "WINDOW_BOOTSTRAP_DAYS"),
    *("SMTP_HOST", "SMTP_PORT", "SMTP_SECURITY", "ALERT_FROM", "ALERT_TO", "DAGSTER_UI_URL"),
)


def up(
    *, port: int | None, echo: Callable[[str], None], first_refreshes: Sequence[Sequence[str]] = FIRST_REFRESHES
) -> int:
    """Serve until a signal asks to stop; return the exit code: 0 after such a stop, 1 when anything failed.

    `port` is where a place for the UI is looked for first (default 3000); a taken one gives way to the next free.
    What failed is told on standard error.
    """
    stopping = Stopping()
    try:
        with stopping.by_signals(), stopping.by_end_of_make():
            house = House(read_home(os.environ), dict(os.environ), _lasting(echo), stopping)
            check_settings(house.given)
            with only_one(house):
                _end_leftovers(house)
                _run(house, port, first_refreshes)
            house.echo("stopped; nothing is left running")
    except RefreshError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"refresh-assets up: {error}\n")
        return 1
    return 0


def _lasting(echo: Callable[[str], None]) -> Callable[[str], None]:
    """Make `echo` outlast its terminal: a line that nobody can read is no reason to leave processes behind."""

    def lasting(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            echo(line)

    return lasting


def _run(house: House, port: int | None, first_refreshes: Sequence[Sequence[str]]) -> None:
    with _kept(house) as keeper, _database(house) as database:
        caught = mailbox(house.home, house.given)
        env = _environment(house, database, caught)
        for command in first_refreshes:
            if not house.stopping.requested:
                refresh_once(house, env, command)
        if not house.stopping.requested:
            _serve(house, Serving(house, env, port, caught), database, keeper, caught)


def _serve(house: House, serving: Serving, database: Database, keeper: int, caught: Mailbox | None) -> None:
    try:
        serving.start()
        serving.wait_for_ui()
        if not house.stopping.requested:
            tell(house.home, ui=serving.ui)
            _describe(house, serving, database, caught)
            serving.watch(database.server)
    finally:
        tell(house.home, ending=True)
        house.echo("stopping …")
        serving.stop(keeper)


def _end_leftovers(house: House) -> None:
    """End what an `up` that was killed left running, where nothing has done so yet."""
    if not marked(house.home):
        return
    with progress(house.echo, "ending what an earlier `up` left running"):
        if not end(lambda: marked(house.home), LEFTOVER_SECONDS, lambda: house.stopping.hastened):
            left = ", ".join(str(process.pid) for process in marked(house.home))
            raise RefreshError(f"these processes of an earlier `up` did not end: {left}")


@contextmanager
def _kept(house: House) -> Iterator[int]:
    """Have a keeper beside us, for the case that we are killed; gives its process number."""
    command = child_command("keeper", str(house.home), *(() if is_yours(house.given) else ("server",)))
    keeper = spawn(command, {**house.given, MARK: mark_of(house.home)}, stdout=subprocess.DEVNULL)
    try:
        yield keeper.pid
    finally:
        if keeper.stdin is not None:
            with contextlib.suppress(OSError):
                keeper.stdin.write(DONE)
        close(keeper)


@contextmanager
def _database(house: House) -> Iterator[Database]:
    what = "using the database that PG* settings name" if is_yours(house.given) else "starting the database"
    with progress(house.echo, what):
        database = open_database(house.given, house.home)
    try:
        yield database
    finally:
        if database.server is not None:
            database.server.stop()


def _environment(house: House, database: Database, caught: Mailbox | None) -> dict[str, str]:
    """Return the environment of all children: the settings, the folders, and our mark."""
    return {
        **database.environment,
        **(caught.environment(house.given) if caught is not None else {}),
        "REFRESH_HOME": str(house.home),
        "DAGSTER_HOME": str(prepare_home(house.home)),
        MARK: mark_of(house.home),
    }


def _describe(house: House, serving: Serving, database: Database, caught: Mailbox | None) -> None:
    mail = f"caught in {caught.folder}, nobody else gets it" if caught else "sent by the server that SMTP_HOST names"
    logs = [house.logs / "refresh.log", *serving.log_files()]
    if database.server is not None:
        logs.append(database.server.log)
    lines = [
        "",
        f"UI        {serving.ui}",
        f"database  {database.described()}",
        f"psql      {database.psql_line()}",
        f"mail      {mail}",
        f"files     {house.home}",
        f"logs      {logs[0]}",
        *(f"          {log}" for log in logs[1:]),
        "",
        *_settings(house, serving, database, caught),
        "Ctrl-C stops all of it.",
    ]
    house.echo("\n".join(lines))


def _settings(house: House, serving: Serving, database: Database, caught: Mailbox | None) -> list[str]:
    """Return what another shell needs for the commands on the server that was started here."""
    if database.server is None:
        return []
    env = {**database.environment, **(caught.environment(house.given) if caught is not None else {})}
    env |= {"REFRESH_HOME": str(house.home), "DAGSTER_UI_URL": env.get("DAGSTER_UI_URL", "").strip() or serving.ui}
    exports = " ".join(f"{name}={shlex.quote(env[name])}" for name in EXPORTED if env.get(name))
    return ["For the commands in another shell:", f"export {exports}", ""]

"""The command `run`. Imports what it needs when it runs."""

from __future__ import annotations

import gc
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.published.table_report import TableReport

COLLECT_AFTER_OBJECTS = 100_000


@click.command()
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Refresh this table only; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a table instead of a log line.")
@click.option("--accept-shrink", is_flag=True, help="Load although far fewer rows, or none, would be left.")
def run(tables: tuple[str, ...], as_json: bool, accept_shrink: bool) -> NoReturn:  # noqa: FBT001
    """Refresh the tables once, in this process; exit 1 if one failed."""
    finish(refreshed(tables, accept_shrink=accept_shrink), as_json=as_json)


def finish(reports: Sequence[TableReport], *, as_json: bool) -> NoReturn:
    """Print the reports and end; exit 1 if one failed."""
    for report in reports:
        click.echo(json.dumps(report.as_json()) if as_json else _log_line(report))
    sys.exit(1 if any(report.failed for report in reports) else 0)


def refreshed(
    wanted: Sequence[str], *, accept_shrink: bool, sha256: str | None = None, published: bool = False
) -> list[TableReport]:
    """Run one refresh; whatever goes wrong becomes a report for each table, its traceback goes to standard error.

    `sha256` names an earlier file to load, `published` asks for the published one whatever was wished for before.
    """
    # Before anything that takes time is imported: a run that is ended early has to say so as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Most of what is made here, Dagster's modules and definitions, stays; it need not be looked through for garbage.
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    tables = list(wanted) or ["all tables"]
    try:
        quiet()
        from refresh_assets.commands.bar import bar
        from refresh_assets.published.choice import Wish
        from refresh_assets.published.run import House, declared_files, refresh
        from refresh_assets.settings import SettingsError, read_settings

        _tell_wrong_settings()
        try:
            settings = read_settings()
        except SettingsError:
            tables = list(wanted) or sorted(declared_files())
            raise
        house = House.load()
        tables = house.select(wanted)
        wish = Wish(sha256, published) if sha256 or published else None
        with bar():
            found = refresh(house, settings, tables, accept_shrink=accept_shrink, wish=wish)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return _failed(tables, RefreshError("the run was ended before it began; nothing was changed"))
    except RefreshError as error:
        tell_person(tables, error)
        return _failed(tables, error)
    except Exception as error:  # noqa: BLE001 - told, whatever it is, and the process ends
        from refresh_assets.secrets import mask

        click.echo(mask(traceback.format_exc()), err=True)
        tell_person(tables, error)
        return _failed(tables, error)
    for text in found.failed_checks:
        click.echo(f"check failed: {text}", err=True)
    for text in found.tracebacks:
        click.echo(text, err=True)
    return found.reports


def _failed(tables: Sequence[str], error: BaseException) -> list[TableReport]:
    from refresh_assets.published.table_report import failed_reports

    return failed_reports(tables, error)


def _tell_wrong_settings() -> None:
    """Say which settings of alerts cannot be used; they stop no refresh."""
    from refresh_assets.alerts.problems import alert_problems

    for problem in alert_problems():
        click.echo(f"a setting of alerts cannot be used: {problem}", err=True)


def tell_person(tables: Sequence[str], error: BaseException, command: str = "refresh-assets run") -> None:
    """Have a person told of a refresh that could not begin, for there is no run that would be found failed."""
    from refresh_assets.alerts.direct import could_not_begin
    from refresh_assets.published.table_report import reason

    problem = could_not_begin(tables, reason(error), command=command)
    if problem is not None:
        click.echo(f"nobody could be told of this by mail: {problem}", err=True)


def _log_line(report: TableReport) -> str:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return f"{now} {'ERROR' if report.failed else 'INFO'} refresh: {report.table}: {report.line}"

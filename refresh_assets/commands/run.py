"""The command `run`. Imports what it needs when it runs."""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.published.report import TableReport

COLLECT_AFTER_OBJECTS = 100_000


@click.command()
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Refresh this table only; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a table instead of a log line.")
@click.option("--accept-shrink", is_flag=True, help="Load although far fewer rows, or none, would be left.")
def run(tables: tuple[str, ...], as_json: bool, accept_shrink: bool) -> NoReturn:  # noqa: FBT001
    """Refresh the tables once, in this process; exit 1 if one failed."""
    reports = _refresh(tables, accept_shrink=accept_shrink)
    for report in reports:
        click.echo(json.dumps(report.as_json()) if as_json else _log_line(report))
    sys.exit(1 if any(report.failed for report in reports) else 0)


def _refresh(wanted: Sequence[str], *, accept_shrink: bool) -> list[TableReport]:
    """Run one refresh; whatever goes wrong becomes a report for each table, its traceback goes to standard error."""
    # Most of what is made here, Dagster's modules and definitions, stays; it need not be looked through for garbage.
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    quiet()
    from refresh_assets.published.run import House, declared_files, failed_reports, refresh
    from refresh_assets.secrets import mask
    from refresh_assets.settings import SettingsError, read_settings

    tables = list(wanted) or ["all tables"]
    try:
        try:
            settings = read_settings()
        except SettingsError as error:
            return failed_reports(list(wanted) or sorted(declared_files()), error)
        house = House.load()
        tables = house.select(wanted)
        reports, failed_checks = refresh(house, settings, tables, accept_shrink=accept_shrink)
    except RefreshError as error:
        return failed_reports(tables, error)
    except Exception as error:  # noqa: BLE001 - told, whatever it is, and the process ends
        click.echo(mask(traceback.format_exc()), err=True)
        return failed_reports(tables, error)
    for text in failed_checks:
        click.echo(f"check failed: {text}", err=True)
    return reports


def _log_line(report: TableReport) -> str:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return f"{now} {'ERROR' if report.failed else 'INFO'} refresh: {report.table}: {report.line}"

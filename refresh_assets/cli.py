"""The command line: `refresh-assets`. Each command imports what it needs when it runs."""

from __future__ import annotations

import gc
import io
import json
import logging
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.published.report import TableReport

COLLECT_AFTER_OBJECTS = 100_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="refresh-assets")
def main() -> None:
    """Keep Postgres tables equal to what a publisher publishes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal or log cannot show must not swallow the line that it stands in.
            stream.reconfigure(errors="backslashreplace")


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the UI (default: 3000, or the next free one).")
def up(port: int | None) -> NoReturn:
    """Serve the Dagster UI with everything it needs, until Ctrl-C."""
    from refresh_assets.local.up import up as serve

    sys.exit(serve(port=port, echo=click.echo))


@main.command()
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Refresh this table only; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a table instead of a log line.")
@click.option("--accept-shrink", is_flag=True, help="Load although far fewer rows, or none, would be left.")
def run(tables: tuple[str, ...], as_json: bool, accept_shrink: bool) -> NoReturn:  # noqa: FBT001
    """Refresh the tables once, in this process; exit 1 if one failed."""
    reports = _refresh(tables, accept_shrink=accept_shrink)
    for report in reports:
        click.echo(json.dumps(report.as_json()) if as_json else _log_line(report))
    sys.exit(1 if any(report.failed for report in reports) else 0)


@main.command()
@click.option("--mail", "send_mail", is_flag=True, help="Send a test mail and say what the mail server answered.")
def check(send_mail: bool) -> NoReturn:  # noqa: FBT001
    """Look at settings, database, publisher and mail one by one; exit 1 if one is wrong."""
    from refresh_assets.check import findings
    from refresh_assets.published.run import declared_files

    wrong = False
    try:
        files = declared_files()
    except RefreshError as error:
        raise click.ClickException(str(error)) from error
    for finding in findings(files, send_mail=send_mail):
        click.echo(str(finding))
        wrong = wrong or finding.ok is False
    sys.exit(1 if wrong else 0)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def status(as_json: bool) -> NoReturn:  # noqa: FBT001
    """Tell how tables, owed mail and the daemon stand; exit 1 if something is overdue."""
    _quiet()
    from refresh_assets.alerts.standing import standing
    from refresh_assets.published.run import House, storage
    from refresh_assets.secrets import masked
    from refresh_assets.settings import read_home

    try:
        repository = House.load().repository
        with storage(read_home()) as instance:
            found = standing(instance, repository)
    except Exception as error:
        text = masked(error)
        if as_json:
            click.echo(json.dumps({"wrong": [text]}))
            sys.exit(1)
        raise click.ClickException(text) from error
    for line in [json.dumps(found.as_json())] if as_json else found.lines():
        click.echo(line)
    sys.exit(1 if found.wrong else 0)


def _refresh(wanted: Sequence[str], *, accept_shrink: bool) -> list[TableReport]:
    """Run one refresh; whatever goes wrong becomes a report for each table, its traceback goes to standard error."""
    # Most of what is made here, Dagster's modules and definitions, stays; it need not be looked through for garbage.
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    _quiet()
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


def _quiet() -> None:
    """Keep what libraries say of themselves off standard error."""
    logging.getLogger("alembic").setLevel(logging.WARNING)


if __name__ == "__main__":
    main(prog_name="refresh-assets")

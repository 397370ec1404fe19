"""The commands `windows run` and `windows status`. Import what they need when they run."""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.commands.run import COLLECT_AFTER_OBJECTS
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.windows.report import WindowReport


@click.group()
def windows() -> None:
    """Load windows of the event log, and tell how they stand."""


@windows.command()
@click.option("--since", metavar="TIME", help="Begin of the time to load, such as 2026-03-02T04:15+00:00.")
@click.option("--until", metavar="TIME", help="Its end, which does not belong to it. Without both: what is due.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a window instead of a log line.")
def run(since: str | None, until: str | None, as_json: bool) -> NoReturn:  # noqa: FBT001
    """Load windows once, in this process; exit 1 if one failed."""

    def say(text: str) -> None:
        click.echo(_log_line("INFO", text), err=as_json)

    found = _load(since, until, say)
    for report in found:
        click.echo(
            json.dumps(report.as_json()) if as_json else _log_line("ERROR" if report.failed else "INFO", report.line)
        )
    sys.exit(1 if any(report.failed for report in found) else 0)


def _load(since: str | None, until: str | None, say: Callable[[str], None]) -> list[WindowReport]:
    """Load windows; whatever goes wrong becomes a report, its traceback goes to standard error."""
    # Most of what is made here, Dagster's modules and definitions, stays; it need not be looked through for garbage.
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    quiet()
    from refresh_assets.published.run import House
    from refresh_assets.reasons import reason
    from refresh_assets.secrets import mask
    from refresh_assets.windows.grid import parse
    from refresh_assets.windows.report import failed_report
    from refresh_assets.windows.run import Bounds, load_windows

    try:
        bounds = Bounds(
            None if since is None else parse("since", since), None if until is None else parse("until", until)
        )
        loaded, failed_checks = load_windows(lambda: House.load().repository, bounds, say)
    except RefreshError as error:
        return [failed_report(reason(error))]
    except Exception as error:  # noqa: BLE001 - told, whatever it is, and the process ends
        click.echo(mask(traceback.format_exc()), err=True)
        return [failed_report(reason(error))]
    for text in failed_checks:
        click.echo(f"check failed: {text}", err=True)
    return loaded


def _log_line(level: str, text: str) -> str:
    return f"{datetime.now(timezone.utc).isoformat(timespec='seconds')} {level} windows: {text}"

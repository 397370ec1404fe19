"""The commands `windows …`. They import what they need when they run."""

from __future__ import annotations

import gc
import json
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.commands.run import COLLECT_AFTER_OBJECTS, tell_person
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.windows.report import WindowReport


@click.group()
def windows() -> None:
    """Load windows of the event log."""


@windows.command()
@click.option("--since", metavar="TIME", help="Begin of the time to load, such as 2026-03-02T04:15+00:00.")
@click.option("--until", metavar="TIME", help="Its end, which does not belong to it. Without both: what is due.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a window instead of a log line.")
def run(since: str | None, until: str | None, as_json: bool) -> NoReturn:  # noqa: FBT001
    """Load windows once, in this process; exit 1 if one failed."""
    # Before anything that takes time is imported: a run that is ended early has to say so as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def say(text: str) -> None:
        click.echo(_log_line("INFO", text), err=as_json)

    found = _load(since, until, say)
    for report in found:
        click.echo(
            json.dumps(report.as_json()) if as_json else _log_line("ERROR" if report.failed else "INFO", report.line)
        )
    sys.exit(1 if any(report.failed for report in found) else 0)


def _load(since: str | None, until: str | None, say: Callable[[str], None]) -> Sequence[WindowReport]:
    """Load windows; whatever goes wrong becomes a report, its traceback goes to standard error."""
    # Most of what is made here, Dagster's modules and definitions, stays; it need not be looked through for garbage.
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    try:
        quiet()
        from refresh_assets.published.run import House
        from refresh_assets.windows.grid import parse
        from refresh_assets.windows.run import Bounds, load_windows
        from refresh_assets.windows.window import WindowError

        try:
            bounds = Bounds(
                None if since is None else parse("since", since), None if until is None else parse("until", until)
            )
            loaded = load_windows(lambda: House.load().repository, bounds, say)
        except WindowError as error:
            # A slip of the person who sits there: nobody else need be told.
            return _failed(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return _failed(RefreshError("the run was ended before it began; nothing was changed"))
    except RefreshError as error:
        _tell_person(error)
        return _failed(error)
    except Exception as error:  # noqa: BLE001 - told, whatever it is, and the process ends
        from refresh_assets.secrets import mask

        click.echo(mask(traceback.format_exc()), err=True)
        _tell_person(error)
        return _failed(error)
    for text in loaded.failed_checks:
        click.echo(f"check failed: {text}", err=True)
    for text in loaded.tracebacks:
        click.echo(text, err=True)
    return loaded.reports


def _failed(error: BaseException) -> Sequence[WindowReport]:
    from refresh_assets.published.table_report import reason
    from refresh_assets.windows.report import failed_report

    return [failed_report(reason(error))]


def _tell_person(error: BaseException) -> None:
    from refresh_assets.windows.state import JOB

    tell_person([JOB], error, "refresh-assets windows run")


def _log_line(level: str, text: str) -> str:
    return f"{datetime.now(timezone.utc).isoformat(timespec='seconds')} {level} windows: {text}"

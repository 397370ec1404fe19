"""Windows that are due and not loaded within their limit, whatever the cause. Upper floor: dagster's ticks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.status import Part
from refresh_assets.alerts.text import Facts, counted, instant
from refresh_assets.alerts.trouble import Trouble
from refresh_assets.postgres.connect import connect, limit
from refresh_assets.settings import Env, read_settings, read_timezone
from refresh_assets.windows.desk import read_plan
from refresh_assets.windows.due import Due, due
from refresh_assets.windows.partitions import window_grid
from refresh_assets.windows.settings import read_max_delay, read_windows, windows_wanted
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window

LOCK_SECONDS, STATEMENT_SECONDS = 3.0, 5.0
_SHOWN = 10


@dataclass(frozen=True)
class Delay:
    """What is due at `now`, and how long after its end a window may be missing."""

    due: Due
    now: datetime
    limit: timedelta

    @property
    def overdue(self) -> list[Window]:
        return [window for window in self.due.missing if self.now > window.until + self.limit]

    @property
    def rows(self) -> list[list[Window]]:
        """The overdue windows, those that follow each other without a gap together."""
        rows: list[list[Window]] = []
        for window in self.overdue:
            if rows and rows[-1][-1].until == window.since:
                rows[-1].append(window)
            else:
                rows.append([window])
        return rows


def overdue_windows(now: datetime, env: Env = os.environ) -> Iterable[Trouble]:
    """Yield what a person should be told of, one trouble for windows that follow each other.

    Raises RefreshError, psycopg.Error.
    """
    found = _delay(now, env)
    if found is None:
        return
    zone = read_timezone(env)
    for windows in found.rows:
        parts = [str(window.since) for window in windows]
        yield Trouble(parts[0], _facts(found, windows, zone), parts=parts)


def windows_part(now: datetime, env: Env = os.environ) -> Part | None:
    """Return how the windows stand for `status`; None where there are none. Raises RefreshError, psycopg.Error."""
    found = _delay(now, env)
    if found is None:
        return None
    overdue, told = found.overdue, found.due
    loaded = f"{_loaded(told, read_timezone(env))}; {len(told.missing)} missing (limit {span(found.limit)})"
    wrong = [f"{JOB} is overdue: {_listed(overdue)}"] if overdue else []
    return Part(
        "windows",
        f"{'FAILED' if overdue else 'ok':<6} {JOB}: {loaded}, {len(told.stale)} stale",
        _told(found),
        wrong,
    )


def _told(found: Delay) -> dict[str, Any]:
    standing = found.due.state
    return {
        "marker": standing.marker.isoformat() if standing else None,
        "missing": [str(window) for window in found.due.missing],
        "stale": [str(window) for window in found.due.stale],
        "limit_seconds": found.limit.total_seconds(),
        "overdue": bool(found.overdue),
    }


def _delay(now: datetime, env: Env) -> Delay | None:
    if not windows_wanted(env):
        return None
    settings = read_settings(env)
    plan = read_plan(settings, window_grid(read_windows(env)), env)
    delay = read_max_delay(env)
    with connect(settings.postgres, "refresh-assets alerts") as conn:
        limit(conn, lock_seconds=LOCK_SECONDS, statement_seconds=STATEMENT_SECONDS, session=True)
        return Delay(due(conn, plan, now), now, delay)


def _facts(found: Delay, windows: Sequence[Window], zone: str) -> Facts:
    return Facts(
        about=JOB,
        happened="is overdue",
        what=f"{counted(len(windows), 'window')} of {JOB} {'is' if len(windows) == 1 else 'are'} due and not loaded "
        f"{span(found.limit)} after the end (setting WINDOW_MAX_DELAY).",
        reason=f"not loaded: {_listed(windows)}",
        since=windows[0].until + found.limit,
        state=_loaded(found.due, zone),
        advice="Load what is due with `refresh-assets windows run`, or in the UI; then see to the schedule "
        "activity_metrics_schedule: is it on, and does the daemon run?",
    )


def _listed(windows: Sequence[Window]) -> str:
    names = [str(window) for window in windows[:_SHOWN]]
    return ", ".join(names) + (f" and {len(windows) - _SHOWN} more" if len(windows) > _SHOWN else "")


def _loaded(found: Due, zone: str) -> str:
    return f"loaded without a gap up to {instant(found.state.marker, zone)}" if found.state else "never loaded"

"""The windows that are due, asked of their tables. Upper floor: stands on dagster's ticks."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from refresh_assets.alerts.windows import DueWindows
from refresh_assets.cron import CronTicks
from refresh_assets.postgres.connect import connect, limit
from refresh_assets.settings import Env, Reader, read_settings
from refresh_assets.windows.due import Plan, due
from refresh_assets.windows.settings import read_windows, windows_wanted

LOCK_SECONDS, STATEMENT_SECONDS = 3.0, 5.0


def due_windows(now: datetime, env: Env = os.environ) -> DueWindows | None:
    """Return what is due; None where there are no windows. Raises RefreshError, psycopg.Error."""
    if not windows_wanted(env):
        return None
    settings, windows = read_settings(env), read_windows(env)
    grid = CronTicks(windows.cron, windows.timezone, windows.start)
    plan = Plan(settings.schema, grid, windows.bootstrap, windows.late)
    reader = Reader(env)
    delay = timedelta(seconds=reader.seconds("WINDOW_MAX_DELAY"))
    reader.done()
    with connect(settings.postgres, "refresh-assets alerts") as conn:
        limit(conn, lock_seconds=LOCK_SECONDS, statement_seconds=STATEMENT_SECONDS, session=True)
        return DueWindows(due(conn, plan, now), delay)

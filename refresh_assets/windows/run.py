"""Windows loaded in this very process, recorded like any run. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import dagster as dg

from refresh_assets.reasons import failed_checks, tracebacks
from refresh_assets.recorded import recording
from refresh_assets.settings import SettingsError
from refresh_assets.windows import state
from refresh_assets.windows.desk import Desk, open_desk
from refresh_assets.windows.due import due, look_for_late_events
from refresh_assets.windows.grid import wished
from refresh_assets.windows.partitions import partitions
from refresh_assets.windows.report import WindowReport, reports, up_to_date
from refresh_assets.windows.schedules import JOB_NAME, only_due_config, range_tags
from refresh_assets.windows.settings import read_windows, windows_wanted
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window


class Loaded(NamedTuple):
    """What a run did to each window, what the checks that failed say, and where the run failed."""

    reports: list[WindowReport]
    failed_checks: list[str]
    tracebacks: list[str]


class Bounds(NamedTuple):
    """The bounds that a person gave, both or none."""

    since: datetime | None
    until: datetime | None


def load_windows(
    repository: Callable[[], dg.RepositoryDefinition], bounds: Bounds, say: Callable[[str], None]
) -> Loaded:
    """Load the windows of a span of time, or what is due, as one run; `say` takes what a person should know of it.

    Raises RefreshError where the wish is none or a database cannot be reached; nothing was changed then.
    """
    if not windows_wanted():
        raise SettingsError("not set in this environment: WINDOW_SOURCE; without an event log there are no windows")
    parts = partitions(read_windows())
    desk = open_desk(parts.grid)
    by_wish = bounds != Bounds(None, None)
    windows = _wished(desk, bounds, say) if by_wish else _due(desk, say)
    if not windows:
        return Loaded([up_to_date()], [], [])
    job = repository().get_job(JOB_NAME)
    with recording(desk.settings.home) as recorder:
        run_id, events = recorder.run(
            job,
            run_config={} if by_wish else only_due_config(),
            selection=frozenset([dg.AssetKey(JOB)]),
            tags=range_tags(parts, windows),
        )
        found = reports(dg.AssetKey(JOB), run_id, windows, events)
        return Loaded(found, failed_checks(events), tracebacks(events))


def _wished(desk: Desk, bounds: Bounds, say: Callable[[str], None]) -> list[Window]:
    with desk.connected() as conn:
        wish = wished(desk.plan.grid, bounds.since, bounds.until, state.now(conn))
    if wish.widened:
        say(wish.widened)
    return list(wish.windows)


def _due(desk: Desk, say: Callable[[str], None]) -> list[Window]:
    with desk.connected() as conn:
        now = state.now(conn)
        look_for_late_events(conn, desk.plan, desk.source, now)
        found = due(conn, desk.plan, now)
    if found.windows:
        say(str(found))
    # The first are the run's own partitions.
    return list(found.missing or found.stale)

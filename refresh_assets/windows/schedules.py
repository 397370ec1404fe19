"""When windows are loaded, and when late events are looked for. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.secrets import masked, masking
from refresh_assets.windows import state
from refresh_assets.windows.checks import LATE_EVENTS, late_events
from refresh_assets.windows.clock import MOST_AHEAD, too_early
from refresh_assets.windows.desk import Desk, open_desk
from refresh_assets.windows.due import due, look_for_late_events, stale_windows
from refresh_assets.windows.partitions import Partitions
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window

JOB_NAME = "activity_metrics_windows"
SCHEDULE = "activity_metrics_schedule"
LOOK_SECONDS = 600


def windows_job() -> Any:
    """Return the job that loads windows."""
    return dg.define_asset_job(
        JOB_NAME,
        selection=dg.AssetSelection.assets(JOB),
        description="Loads windows of the event log into activity_metrics.",
    )


def windows_schedule(partitions: Partitions, job: Any) -> dg.ScheduleDefinition:
    """Return the schedule, on the ticks that bound the windows: each loads all that is due, missing windows first."""
    grid = partitions.grid

    @dg.schedule(
        name=SCHEDULE,
        job=job,
        cron_schedule=grid.cron,
        execution_timezone=grid.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Loads the window that ends at the tick, after those that are missing ({grid.cron}, time zone "
        f"{grid.timezone}; settings WINDOW_CRON and WINDOW_TIMEZONE).",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        with masking():
            desk = open_desk(grid)
            with desk.connected() as conn:
                now = state.now(conn)
                # A host whose clock is ahead ticks before the window has ended by the database's.
                ahead = context.scheduled_execution_time.astimezone(timezone.utc) - now
                if timedelta() < ahead <= MOST_AHEAD:
                    now += ahead
                _look(context, conn, desk, now)
                found = due(conn, desk.plan, now)
        early = too_early(ahead) if ahead > MOST_AHEAD else None
        if early:
            context.log.warning(early)
        if not found.windows:
            return dg.SkipReason(early or str(found))
        return dg.RunRequest(
            tags=range_tags(partitions, found.missing or found.stale),
            run_config=only_due_config(),
            # So that a failure here and a success by hand, or the other way round, are of the same thing.
            asset_selection=[dg.AssetKey(JOB)],
        )

    return schedule


def _look(context: dg.ScheduleEvaluationContext, conn: Connection, desk: Desk, now: datetime) -> None:
    try:
        look_for_late_events(conn, desk.plan, desk.source, now)
    except RefreshError as error:
        # The run that reads the log fails and says why; without one nobody would be told.
        context.log.warning("late events were not looked for: %s", masked(error))


def late_events_sensor(partitions: Partitions, asset: dg.AssetKey) -> dg.SensorDefinition:
    """Return the sensor that marks windows stale between two runs, and shows it as a check of the asset."""

    @dg.sensor(
        name="late_events",
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks for events that came late for a loaded window; the next run counts them.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with masking():
            desk = open_desk(partitions.grid)
            with desk.connected() as conn:
                look_for_late_events(conn, desk.plan, desk.source, state.now(conn))
                verdict = late_events(stale_windows(conn, desk.plan))
        if verdict.description == (context.cursor or late_events([]).description):
            return dg.SensorResult(skip_reason=verdict.description)
        evaluation = dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=LATE_EVENTS,
            passed=verdict.passed,
            severity=verdict.severity,
            description=verdict.description,
        )
        return dg.SensorResult(asset_events=[evaluation], cursor=verdict.description)

    return sensor


def only_due_config() -> Mapping[str, object]:
    """Return the run configuration of a run that loads what is due."""
    return {"ops": {JOB: {"config": {"only_due": True}}}}


def range_tags(partitions: Partitions, windows: Sequence[Window]) -> Mapping[str, str]:
    """Return the tags of a run over the first unbroken row of these windows.

    The others are loaded by the same run. They are not its partitions, for Dagster would call those between failed.
    """
    row = list(_unbroken(windows))
    return {
        ASSET_PARTITION_RANGE_START_TAG: partitions.key(row[0]),
        ASSET_PARTITION_RANGE_END_TAG: partitions.key(row[-1]),
    }


def _unbroken(windows: Sequence[Window]) -> Iterator[Window]:
    before: Window | None = None
    for window in windows:
        if before is not None and window.since != before.until:
            return
        yield window
        before = window

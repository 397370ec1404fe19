"""The asset `activity_metrics` and the event log that it counts. Upper floor: imports dagster."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.published.table.fence import Fence, open_fence
from refresh_assets.secrets import masking
from refresh_assets.windows import metadata, state
from refresh_assets.windows.checks import CHECKS, check_specs, results
from refresh_assets.windows.describe import metrics_description
from refresh_assets.windows.desk import Desk, open_desk
from refresh_assets.windows.due import due, look_for_late_events
from refresh_assets.windows.load import Loading, Result, WindowGuard, load
from refresh_assets.windows.partitions import Partitions
from refresh_assets.windows.state import JOB
from refresh_assets.windows.telling import Event, Telling, earlier_loads
from refresh_assets.windows.window import Window

GROUP = "windows"
METRICS = dg.AssetKey(JOB)
EVENT_LOG = dg.AssetKey("event_log")


class WindowsConfig(dg.Config):
    """How the windows of a run are chosen."""

    only_due: bool = Field(
        default=False,
        description="Load what is due, the windows of this run and any other, and leave alone what is loaded already.",
    )


def event_log_asset(source: str) -> dg.AssetSpec:
    """Return the external asset that stands for the event log; `source` is the setting WINDOW_SOURCE."""
    return dg.AssetSpec(
        EVENT_LOG,
        group_name=GROUP,
        kinds={"postgres"} if source.lower() == "moodle" else {"file"},
        description="The event log of the learning platform. Others write it, we read it.",
    )


def metrics_asset(partitions: Partitions, fence: Fence = open_fence) -> dg.AssetsDefinition:
    """Return `activity_metrics`, one window a partition; each has to pass the fence of its run."""

    @dg.asset(
        key=METRICS,
        deps=[EVENT_LOG],
        group_name=GROUP,
        kinds={"postgres", "table"},
        partitions_def=partitions.definition,
        backfill_policy=dg.BackfillPolicy.single_run(),
        # Each window is reported by itself, as soon as it is committed: some may be loaded, and others fail.
        output_required=False,
        check_specs=check_specs(METRICS, CHECKS),
        code_version="1",
        description=metrics_description(partitions.grid.cron, partitions.grid.timezone),
        metadata=metadata.of_definition(),
    )
    def activity_metrics(context: dg.AssetExecutionContext, config: WindowsConfig) -> Iterator[Any]:
        result = Result()
        with masking():
            desk = open_desk(partitions.grid)
            telling = Telling(context, METRICS, EVENT_LOG, partitions, desk)
            with desk.connected() as conn:
                guard = _guard(context.run, fence)
                yield from _loaded(conn, telling, result, guard, only_due=config.only_due)
                checked = results(conn, METRICS, desk, result)
            yield from checked
            failed = result.of("failed")
            if failed:
                others = ", the others are loaded" if len(failed) < len(result.done) else ""
                raise RefreshError(
                    f"{len(failed)} of {len(result.done)} windows failed{others}: "
                    + "; ".join(f"{done.window}: {done.reason}" for done in failed[:10])
                )

    return activity_metrics


def _guard(run: dg.DagsterRun, fence: Fence) -> WindowGuard:
    def guard(conn: Connection, window: Window) -> None:
        of_window = fence(run.run_id, run.tags, str(window))
        if of_window is not None:
            of_window(conn)

    return guard


def _loaded(
    conn: Connection, telling: Telling, result: Result, guard: WindowGuard, *, only_due: bool
) -> Iterator[Event]:
    """Load the windows of a run and yield what is to be told of each."""
    context, desk = telling.context, telling.desk
    windows = telling.partitions.windows(context)
    if only_due:
        windows += _due(context, conn, desk)
    loading = Loading(
        desk.plan,
        desk.source,
        desk.min_cell,
        run_id=context.run.run_id,
        only_due=only_due,
        lock_seconds=desk.settings.lock_timeout,
        statement_seconds=desk.settings.statement_timeout,
        guard=guard,
    )
    for done in load(conn, loading, windows, result):
        yield telling.of(done)
    telling.of_all(result)
    yield from earlier_loads(conn, telling)


def _due(context: dg.AssetExecutionContext, conn: Connection, desk: Desk) -> list[Window]:
    now = state.now(conn)
    look_for_late_events(conn, desk.plan, desk.source, now)
    found = due(conn, desk.plan, now)
    context.log.info("windows: %s", found)
    return list(found.windows)

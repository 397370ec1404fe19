"""Runs whose process is gone: they are ended as failed, and so told. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from refresh_assets.alerts.executor import NAME
from refresh_assets.alerts.heartbeat import Silent, create_heartbeats, prune, silent_runs
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import instant

_RUNNING = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


def dead_runs(look: Look) -> Iterator[Alert]:
    """End the runs whose process is gone; they are told with the others that failed."""
    create_heartbeats(look.conn)
    running = [record.dagster_run for record in look.instance.get_run_records(dg.RunsFilter(statuses=_RUNNING))]
    ours = [run.run_id for run in running if _is_ours(look.instance, run)]
    for silent in silent_runs(look.conn, ours, look.limits.silent_after, look.limits.second_look):
        run = look.instance.get_run_by_id(silent.run_id)
        if run is not None and run.status in _RUNNING:
            look.instance.report_run_failed(run, _message(silent, look.timezone))
    prune(look.conn, ours)
    yield from ()


def _is_ours(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Tell whether a run's process was to write a heartbeat."""
    snapshot = run.execution_plan_snapshot_id
    return snapshot is not None and instance.get_execution_plan_snapshot(snapshot).executor_name == NAME


def _message(silent: Silent, timezone: str) -> str:
    if silent.pid is None:
        return (
            "The process of this run is gone: it never wrote a heartbeat. It was killed, ran out of memory, or its "
            "host went down, before it could begin."
        )
    return (
        f"The process of this run is gone: pid {silent.pid} on host {silent.host}, last heartbeat at "
        f"{instant(silent.beat_at, timezone)}. It was killed, ran out of memory, or its host went down."
    )

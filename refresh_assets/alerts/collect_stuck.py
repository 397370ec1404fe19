"""Runs that wait for their start and do not get it. Upper floor: imports dagster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg
from dagster import RunRecord

from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant

_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
_SHOWN = 20
_ADVICE = (
    "A run in QUEUED waits for the daemon or for a limit on concurrent runs: look whether the daemon runs (page "
    "Deployment in the UI) and what else is running. One in NOT_STARTED or STARTING has no process: look at the log of "
    "the code location. Terminate the run where it is not wanted any more."
)


def stuck_runs(look: Look) -> Iterator[Alert]:
    """Tell once of each run that waits for too long; those of one job that are found together share a mail."""
    filters = dg.RunsFilter(statuses=_WAITING, created_after=look.since)
    waiting = look.instance.get_run_records(filters, limit=1000, ascending=True)
    stuck = [record for record in waiting if look.now - _since(record) > look.limits.stuck_after]
    unseen = look.memory.unseen((record.dagster_run.run_id, "stuck") for record in stuck)
    jobs: dict[str, list[RunRecord]] = defaultdict(list)
    for record in stuck:
        if (record.dagster_run.run_id, "stuck") in unseen:
            jobs[record.dagster_run.job_name].append(record)
    for job, records in jobs.items():
        yield look.alert(f"run:{records[0].dagster_run.run_id}:stuck", "stuck", _facts(look, job, records))
        for record in records:
            look.memory.see(record.dagster_run.run_id, "stuck")


def _facts(look: Look, job: str, records: Sequence[RunRecord]) -> Facts:
    lines = [_line(look, record) for record in records[:_SHOWN]]
    if len(records) > _SHOWN:
        lines.append(f"and {len(records) - _SHOWN} more")
    first = records[0].dagster_run
    tables = look.declared.touched(first)
    return Facts(
        about=tables[0] if len(tables) == 1 else job,
        happened="is stuck",
        what=f"{len(records)} run(s) of job {job} did not start within {look.limits.stuck_after}.",
        reason="\n".join(lines),
        since=min(map(_since, records)),
        state=look.state_of(tables),
        last_success=look.last_verified(tables),
        advice=_ADVICE,
        run_url=look.run_url(first.run_id),
    )


def _line(look: Look, record: RunRecord) -> str:
    run = record.dagster_run
    return f"run {run.run_id[:8]} is {run.status.value} since {instant(_since(record), look.timezone)}"


def _since(record: RunRecord) -> datetime:
    if record.dagster_run.status == dg.DagsterRunStatus.NOT_STARTED:
        # Nothing has happened to it yet, and the time of its last change is by another clock.
        return record.create_timestamp
    return record.update_timestamp

"""Runs that wait for their start and do not get it. Upper floor: imports dagster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg
from dagster import RunRecord
from dagster._core.remote_representation.code_location import is_implicit_asset_job_name

from refresh_assets.alerts.look import Look
from refresh_assets.alerts.naming import about_run, named_run
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.text import Facts, counted, instant

_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
_SHOWN = 20
PAGE = 1000
_ADVICE = (
    "A run in QUEUED waits for the daemon or for a limit on concurrent runs: look whether the daemon runs (page "
    "Deployment in the UI) and what else is running. One in NOT_STARTED or STARTING has no process: look at the log of "
    "the code location. Terminate the run where it is not wanted any more."
)


def stuck_runs(look: Look) -> Iterator[Alert]:
    """Tell once of each run that waits for too long; those of one job that are found together share a mail."""
    by_name: dict[str, list[RunRecord]] = defaultdict(list)
    for page in _pages(look):
        stuck = [record for record in page if look.now - _since(record) > look.limits.stuck_after]
        unseen = look.memory.unseen((record.dagster_run.run_id, "stuck") for record in stuck)
        for record in stuck:
            if (record.dagster_run.run_id, "stuck") in unseen:
                by_name[_about(look, record.dagster_run)].append(record)
    for about, records in by_name.items():
        yield look.alert(f"run:{records[0].dagster_run.run_id}:stuck", "stuck", _facts(look, about, records))
        for record in records:
            look.memory.see(record.dagster_run.run_id, "stuck")


def _pages(look: Look) -> Iterator[Sequence[RunRecord]]:
    """Yield the runs that wait, the oldest first, until there is no more, or no more time."""
    filters = dg.RunsFilter(statuses=_WAITING, created_after=look.since)
    cursor = None
    while True:
        page = look.instance.get_run_records(filters, limit=PAGE, cursor=cursor, ascending=True)
        yield page
        if len(page) < PAGE or look.out_of_time:
            return
        cursor = page[-1].dagster_run.run_id


def _about(look: Look, run: dg.DagsterRun) -> str:
    tables = look.declared.touched(run)
    whole = len(tables) > 1 and not is_implicit_asset_job_name(run.job_name)
    return about_run(run, [] if whole else tables)


def _facts(look: Look, about: str, records: Sequence[RunRecord]) -> Facts:
    lines = [_line(look, record) for record in records[:_SHOWN]]
    if len(records) > _SHOWN:
        lines.append(f"and {len(records) - _SHOWN} more")
    first = records[0].dagster_run
    tables = look.declared.touched(first)
    return Facts(
        about=about,
        happened="are stuck" if " and " in about else "is stuck",
        what=f"{counted(len(records), 'run')} did not start within {span(look.limits.stuck_after)}; the first of them: "
        f"{named_run(first)}.",
        reason="\n".join(lines),
        since=min(map(_since, records)),
        state=look.state_of(tables, look.now),
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

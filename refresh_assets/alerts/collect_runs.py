"""Runs that failed, runs that succeeded with a failed check, and what works again. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import dagster as dg
from dagster import RunRecord
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG

from refresh_assets.alerts.incident import Incident, ended_at
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.naming import about_run, named_run
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.owner import is_owned, is_settled
from refresh_assets.alerts.recovery import recovered
from refresh_assets.alerts.text import Facts, counted
from refresh_assets.errors import RefreshError

# What was committed late, or by a host whose clock is slow, is looked for so far behind the newest.
OVERLAP = timedelta(minutes=30)
# A run that ended so long before it was last touched was only touched: tags can be added to runs of last year.
LATE = timedelta(days=30)
# Dagster says within this time of a failure whether it will try again, and tries within the other.
RETRY_TAG_WITHIN = timedelta(seconds=10)
RETRY_WITHIN = timedelta(minutes=10)
PAGE = 500
_WAITS, _STUMBLED, _UNDECIDED = "waits for its retry", "could not be read", "may be retried"
_STATUSES = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED]


def ended_runs(look: Look) -> Iterator[Alert]:
    """Tell of every run that ended since the last look, in the order of their ends.

    Raises RefreshError after all others are told where a run could not be read. At the next look it is told without
    what could not be read, so that it neither is lost nor keeps the sensor from looking.
    """
    # A clock that was ahead and was put right must not hide what ends until then.
    came_to = min(look.memory.noted("ended runs") or look.since, look.now)
    unreadable: list[str] = []
    for page in _pages(look, max(came_to - OVERLAP, look.since)):
        fresh = look.memory.unseen((record.dagster_run.run_id, record.dagster_run.status.value) for record in page)
        reached = came_to
        for record in page:
            run = record.dagster_run
            if (run.run_id, run.status.value) in fresh and ended_at(record) > came_to - LATE:
                yield from tell_ended(look, record, unreadable)
            reached = record.update_timestamp
            if look.out_of_time:
                break
        # A host whose clock is fast must not make the others' runs look old.
        look.memory.note("ended runs", max(came_to, min(reached, look.now)))
    _raise_unreadable(unreadable)


def missed_retries(look: Look) -> Iterator[Alert]:
    """Tell of failed runs that were to be tried again and were not."""
    for run_id, seen_at in look.memory.seen_as(_WAITS).items():
        if look.out_of_time:
            return
        record = look.instance.get_run_record_by_id(run_id)
        if record is not None and not _was_retried(record.dagster_run):
            if _is_waited_for(record.dagster_run) and abs(look.now - seen_at) < RETRY_WITHIN:
                continue
            yield from _failure(look, record)
        look.memory.forget(run_id, _WAITS)


def put_off_runs(look: Look) -> Iterator[Alert]:
    """Tell of runs that ended and could not be told at once, wherever the other looks have come to by now.

    Raises RefreshError as `ended_runs` does.
    """
    unreadable: list[str] = []
    for state in (_UNDECIDED, _STUMBLED):
        for run_id, seen_at in look.memory.seen_as(state).items():
            if look.out_of_time or seen_at >= look.now:
                break
            record = look.instance.get_run_record_by_id(run_id)
            if record is not None and _is_untold(look, record):
                yield from tell_ended(look, record, unreadable)
                if _is_untold(look, record):
                    continue
            look.memory.forget(run_id, state)
    _raise_unreadable(unreadable)


def _is_untold(look: Look, record: RunRecord) -> bool:
    return bool(look.memory.unseen([(record.dagster_run.run_id, record.dagster_run.status.value)]))


def _pages(look: Look, after: datetime) -> Iterator[Sequence[RunRecord]]:
    """Yield the runs that ended after an instant, until there is no more, or no more time; some come twice."""
    limit = PAGE
    while not look.out_of_time:
        filters = dg.RunsFilter(statuses=_STATUSES, updated_after=after)
        page = look.instance.get_run_records(filters, limit=limit, order_by="update_timestamp", ascending=True)
        if page:
            yield page
        if len(page) < limit:
            return
        # From a little before the last one on, for several may have the same instant; or a page of its own.
        before, after = after, page[-1].update_timestamp - timedelta(microseconds=1)
        limit = 2 * limit if after <= before else PAGE


def tell_ended(look: Look, record: RunRecord, unreadable: list[str]) -> Iterator[Alert]:
    """Tell of a run unless Dagster has yet to say whether it tries again, and remember that it was told."""
    run = record.dagster_run
    if _is_undecided(look, run):
        # Not by when it failed: that may be after this look began, and is by the clock of its host.
        first_seen = look.memory.see(run.run_id, _UNDECIDED)
        if abs(look.now - first_seen) < RETRY_TAG_WITHIN:
            return
    try:
        yield from _of(look, record)
    except Exception as error:
        if look.conn.closed:
            raise
        # Whatever it is, the other runs must be told.
        problem = f"run {run.run_id}: {type(error).__name__}: {error}"
        if look.memory.unseen([(run.run_id, _STUMBLED)]):
            look.memory.see(run.run_id, _STUMBLED)
            unreadable.append(problem)
            return
        yield look.alert(f"run:{run.run_id}:unreadable", "failed", _facts_without_reason(look, run, problem))
    look.memory.see(run.run_id, run.status.value)


def _raise_unreadable(unreadable: Sequence[str]) -> None:
    if unreadable:
        raise RefreshError(f"{counted(len(unreadable), 'run')} could not be read: {unreadable[0]}")


def _facts_without_reason(look: Look, run: dg.DagsterRun, problem: str) -> Facts:
    return Facts(
        about=about_run(run, look.declared.touched(run)),
        happened=f"ended in {run.status.value}",
        what=f"What became of it could not be read: {named_run(run)}.",
        reason=problem,
        advice="Open the run.",
        run_url=look.run_url(run.run_id),
    )


def _of(look: Look, record: RunRecord) -> Iterator[Alert]:
    run = record.dagster_run
    if run.status == dg.DagsterRunStatus.SUCCESS:
        yield from _failed_checks(look, record)
        yield from recovered(look, run, ended_at(record))
    elif _is_waited_for(run):
        if not _was_retried(run):
            look.memory.see(run.run_id, _WAITS)
    else:
        yield from _failure(look, record)


def _failure(look: Look, record: RunRecord) -> Iterator[Alert]:
    run = record.dagster_run
    incident = Incident.of(look, record)
    # What a person cancels is no failure; what was cancelled because it ran for too long is.
    if run.status == dg.DagsterRunStatus.CANCELED and not incident.ended_by_limit:
        return
    began = [look.memory.begin("failing", unit, incident.at) for unit in incident.units]
    yield look.alert(f"run:{run.run_id}:failed", "failed", incident.failed_since(min(began)))


def _failed_checks(look: Look, record: RunRecord) -> Iterator[Alert]:
    incident = Incident.of(look, record)
    if incident.failed_checks:
        yield look.alert(f"run:{record.dagster_run.run_id}:checks", "check_failed", incident.failed_a_check())


def _is_undecided(look: Look, run: dg.DagsterRun) -> bool:
    """Tell whether Dagster has yet to say if it will try a failed run again."""
    return (
        run.status == dg.DagsterRunStatus.FAILURE
        and look.instance.run_retries_enabled
        and WILL_RETRY_TAG not in run.tags
    )


def _is_to_be_retried(run: dg.DagsterRun) -> bool:
    return run.status == dg.DagsterRunStatus.FAILURE and run.tags.get(WILL_RETRY_TAG) == "true"


def _is_waited_for(run: dg.DagsterRun) -> bool:
    return _is_to_be_retried(run) or is_owned(run.tags)


def _was_retried(run: dg.DagsterRun) -> bool:
    """Tell whether a failed run was tried again, or its owner took note of it."""
    return AUTO_RETRY_RUN_ID_TAG in run.tags or is_settled(run.tags)

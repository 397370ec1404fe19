"""Runs whose end was not found by its time, whatever the clocks say. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg
from dagster import RunRecord
from dagster._core.event_api import RunStatusChangeRecordsFilter

from refresh_assets.alerts.collect_runs import tell_ended
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert

# A host whose clock is hours slow dates the end of its runs far behind what was looked at already. The number of an
# event is given by the database; some are committed a little later than higher ones.
OVERLAP = 5000
PAGE = 500
_FLOOR = "first event"
_ENDS = {
    dg.DagsterEventType.RUN_FAILURE: dg.DagsterRunStatus.FAILURE,
    dg.DagsterEventType.RUN_CANCELED: dg.DagsterRunStatus.CANCELED,
    dg.DagsterEventType.RUN_SUCCESS: dg.DagsterRunStatus.SUCCESS,
}


def late_runs(look: Look) -> Iterator[Alert]:
    """Tell of runs by the numbers of their last events, in the order in which the database numbered them."""
    floor = look.memory.position(_FLOOR)
    if floor is None:
        # What ended before the first look is found by its time.
        look.memory.place(_FLOOR, max(_newest(look, kind) for kind in _ENDS))
        return
    unreadable: list[str] = []
    for kind, status in _ENDS.items():
        came_to = max(look.memory.position(kind.value) or 0, floor)
        after = max(came_to - OVERLAP, floor)
        while not look.out_of_time:
            filters = RunStatusChangeRecordsFilter(kind, after_storage_id=after)  # type: ignore[arg-type]
            page = look.instance.fetch_run_status_changes(filters, limit=PAGE, ascending=True).records
            for record in _unseen(look, [event.run_id for event in page], status):
                yield from tell_ended(look, record, unreadable)
            if page:
                after = page[-1].storage_id
                look.memory.place(kind.value, max(after, came_to))
            if len(page) < PAGE:
                break


def _unseen(look: Look, run_ids: Sequence[str], status: dg.DagsterRunStatus) -> Sequence[RunRecord]:
    """Return those runs that ended so and were not seen yet."""
    unseen = {run_id for run_id, _status in look.memory.unseen((run_id, status.value) for run_id in run_ids)}
    if not unseen:
        return []
    return look.instance.get_run_records(dg.RunsFilter(run_ids=list(unseen), statuses=[status]), ascending=True)


def _newest(look: Look, kind: dg.DagsterEventType) -> int:
    found = look.instance.fetch_run_status_changes(kind, limit=1).records
    return found[0].storage_id if found else 0

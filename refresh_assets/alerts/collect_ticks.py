"""Sensors and schedules that fail again and again. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorTick, TickStatus

from refresh_assets.alerts.declared import instant_of
from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.reasons import innermost, words

IN_A_ROW = 3
_KIND = "ticks"
_ENDED = [TickStatus.SUCCESS, TickStatus.SKIPPED, TickStatus.FAILURE]


def failing_ticks(look: Look) -> Iterator[Alert]:
    """Tell of each sensor and schedule whose last three ticks failed, and when it works again."""
    known = look.memory.spells(_KIND)
    for state in look.instance.all_instigator_state():
        if state.status == InstigatorStatus.STOPPED:
            look.memory.end(_KIND, [state.selector_id])
            continue
        ticks = look.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=IN_A_ROW, statuses=_ENDED)
        if _all_failed(ticks) and instant_of(ticks[0].timestamp) > look.since:
            yield from _failing(look, state, ticks)
        elif state.selector_id in known and ticks and ticks[0].status != TickStatus.FAILURE:
            yield from _works_again(look, state, known[state.selector_id])


def _all_failed(ticks: Sequence[InstigatorTick]) -> bool:
    return len(ticks) == IN_A_ROW and all(
        tick.status == TickStatus.FAILURE
        and not (tick.error and innermost(tick.error).cls_name == LookFailedError.__name__)
        for tick in ticks
    )


def _failing(look: Look, state: InstigatorState, ticks: Sequence[InstigatorTick]) -> Iterator[Alert]:
    began = look.memory.begin(_KIND, state.selector_id, instant_of(ticks[-1].timestamp))
    key = f"ticks:{state.selector_id}:{began.isoformat()}"
    if look.memory.told(key):
        return
    what = state.instigator_type.value.lower()
    facts = Facts(
        about=state.name,
        what=f"The {what} {state.name} failed in its last {IN_A_ROW} ticks; what it should start is not started.",
        reason=reason_of(ticks[0]),
        since=began,
        last_success=_last_success(look, state),
        advice=f"Open the {what} {state.name} in the UI: its ticks show the whole error.",
    )
    yield look.alert(key, "ticks_failed", facts)


def _works_again(look: Look, state: InstigatorState, began: datetime) -> Iterator[Alert]:
    what = state.instigator_type.value.lower()
    facts = Facts(
        about=state.name,
        happened="recovered",
        what=f"The {what} {state.name} works again; it had failed since {instant(began, look.timezone)}.",
    )
    yield look.alert(f"ticks:{state.selector_id}:{began.isoformat()}:recovered", "recovered", facts)
    look.memory.end(_KIND, [state.selector_id])


def reason_of(tick: InstigatorTick) -> str:
    return words(innermost(tick.error)) if tick.error else "no error was kept"


def _last_success(look: Look, state: InstigatorState) -> datetime | None:
    found = look.instance.get_ticks(
        state.instigator_origin_id, state.selector_id, limit=1, statuses=[TickStatus.SUCCESS, TickStatus.SKIPPED]
    )
    return instant_of(found[0].timestamp) if found else None

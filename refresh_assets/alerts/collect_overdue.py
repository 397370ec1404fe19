"""Tables that nobody verified for longer than their limit, whatever the cause. Upper floor: imports dagster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, TickStatus

from refresh_assets.alerts.collect_ticks import reason_of
from refresh_assets.alerts.declared import instant_of
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.overdue import Age, span, watch
from refresh_assets.alerts.recovery import recovery
from refresh_assets.alerts.text import Facts, instant

_KIND = "overdue"


def overdue_tables(look: Look) -> Iterator[Alert]:
    """Tell once of each table that is overdue, and when it is verified again."""
    known = look.memory.spells(_KIND)
    seen = watch(look.memory, look.declared.files, look.now)
    ages = [Age(table, _verified_at(look, table), first, look.limits.max_age) for table, first in seen.items()]
    overdue = {age.table: (age, since) for age in ages if (since := age.overdue_since(look.now))}
    for table, (age, since) in overdue.items():
        began = look.memory.begin(_KIND, table, since)
        key = f"overdue:{table}:{began.isoformat()}"
        if not look.memory.told(key):
            yield look.alert(key, "overdue", _facts(look, age, since))
    over = [table for table in known if table not in overdue]
    by_run = defaultdict(list)
    for table in over:
        if table in look.verified:
            by_run[look.verified[table].run_id].append(table)
    for run_id, tables in by_run.items():
        run = look.instance.get_run_by_id(run_id) or dg.DagsterRun(tables[0], run_id)
        yield recovery(look, run, tables, min(known[table] for table in tables))
    look.memory.end(_KIND, over)


def _verified_at(look: Look, table: str) -> datetime | None:
    """Return when a table was last verified; its last load counts where Dagster's storage lost what it knew."""
    return look.verified[table].at if table in look.verified else look.loaded_at(table)


def _facts(look: Look, age: Age, since: datetime) -> Facts:
    unverified = span(look.now - since + age.limit)
    verified = f"was last verified {unverified} ago" if age.verified_at else "was never verified"
    causes = [_cause(look, schedule) for schedule in look.declared.schedules(age.table)]
    return Facts(
        about=age.table,
        happened="is overdue",
        what=f"The table {age.table} {verified}; its limit is {span(age.limit)} (setting REFRESH_MAX_AGE).",
        reason="\n".join([f"not verified for {unverified}", *(causes or ["no schedule refreshes it"])]),
        since=since,
        state=look.state_of([age.table], look.now),
        last_success=age.verified_at,
        advice=f"Refresh it now, in the UI or with `refresh-assets run --table {age.table}`, and see to its schedule.",
        asset_url=look.asset_url([age.table]),
    )


def _cause(look: Look, schedule: str) -> str:
    """Say what a table's schedule did, as far as Dagster's storage tells."""
    states = look.instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE)
    state = next((state for state in states if state.name == schedule), None)
    if state is None:
        return f"the schedule {schedule} never ticked: no daemon has run it yet"
    if state.status == InstigatorStatus.STOPPED:
        return f"the schedule {schedule} is stopped (in the UI); {_last_tick(look, state)}"
    return f"the schedule {schedule} is on; {_last_tick(look, state)}"


def _last_tick(look: Look, state: InstigatorState) -> str:
    ticks = look.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    if not ticks:
        return "it never ticked"
    (tick,) = ticks
    when = f"its last tick was at {instant(instant_of(tick.timestamp), look.timezone)}"
    if tick.status == TickStatus.FAILURE:
        return f"{when} and failed: {reason_of(tick)}"
    runs = [run for run in map(look.instance.get_run_by_id, tick.run_ids) if run is not None]
    return f"{when}; " + (", ".join(map(_outcome, runs)) or "it started no run")


def _outcome(run: dg.DagsterRun) -> str:
    return f"its run {run.run_id[:8]} is in {run.status.value}"

"""What works again after an incident that a person was told of. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg

from refresh_assets.alerts.declared import key_of, outcome_of, verifies
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.naming import about_run, units_of
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant


def recovered(look: Look, run: dg.DagsterRun, at: datetime) -> Iterator[Alert]:
    """Tell once that what a successful run refreshed does not fail any more."""
    failing = look.memory.spells("failing")
    tables = look.declared.touched(run)
    over = [unit for unit in units_of(run, tables) if unit in failing and failing[unit] < at]
    if not over or (not tables and _met_another(look, run)):
        return
    unverified = set(tables) - _verified_tables(look, run, tables)
    over = [unit for unit in over if unit.removeprefix("table ") not in unverified]
    if over:
        again = [table for table in tables if f"table {table}" in over]
        yield recovery(look, run, again, min(failing[unit] for unit in over))
        look.memory.end("failing", over)


def recovery(look: Look, run: dg.DagsterRun, tables: Sequence[str], began: datetime) -> Alert:
    """Return the one alert that a run can give on tables, or on its job, which work again."""
    about = about_run(run, tables)
    what = ", ".join(tables) or about
    since = instant(began, look.timezone)
    facts = Facts(
        about=about,
        happened="recovered",
        what=f"Run {run.run_id[:8]} succeeded: {what} had failed or gone unverified since {since}.",
        state=look.state_of(tables),
        run_url=look.run_url(run.run_id),
        asset_url=look.asset_url(tables),
    )
    return look.alert(f"run:{run.run_id}:recovered", "recovered", facts)


def _met_another(look: Look, run: dg.DagsterRun) -> bool:
    """Tell whether the run left something as it was because another run was working on it."""
    entries = look.instance.all_logs(run.run_id, of_type={dg.DagsterEventType.ASSET_OBSERVATION})
    events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
    return any(outcome_of(event.asset_observation_data.asset_observation) == "locked" for event in events)


def _verified_tables(look: Look, run: dg.DagsterRun, tables: Sequence[str]) -> set[str]:
    """Return the tables that the run did not leave as they were because another refresh held their lock."""
    entries = look.instance.all_logs(run.run_id, of_type={dg.DagsterEventType.ASSET_MATERIALIZATION})
    events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
    verified = {event.asset_key for event in events if verifies(event.step_materialization_data.materialization)}
    return {table for table in tables if key_of(table) in verified}

"""What a run did to each table, read from its events. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from refresh_assets.published.table_report import TableReport, one_line
from refresh_assets.reasons import INTERRUPTED, evaluations, innermost, words

ENDED = "the run was ended before the table was refreshed; nothing of it was changed"


def report_of(table: str, run_id: str, events: Sequence[dg.DagsterEvent]) -> TableReport:
    """Read a table's report from the events of a run."""
    error = _error(table, events)
    if error is not None:
        return TableReport(table, "failed", run_id=run_id, error=error)
    told = _materialization(table, events)
    if told is None:
        return TableReport(table, "failed", run_id=run_id, error=ENDED)
    return TableReport(
        table,
        told["outcome"],
        rows_staged=told.get("rows_staged"),
        rows=told.get("dagster/row_count"),
        added=told["added"],
        changed=told["changed"],
        removed=told["removed"],
        changed_parts=told["changed_parts"],
        job_key=told["job_key"],
        run_id=run_id,
        message=told["message"],
    )


def _error(table: str, events: Sequence[dg.DagsterEvent]) -> str | None:
    """Return why a table was not refreshed: the first failure among its steps."""
    steps = ("manifest", f"{table}_csv", f"{table}_table")
    for evaluation in evaluations(events):
        if evaluation.blocking and not evaluation.passed and evaluation.asset_key.to_user_string() in steps:
            return one_line(evaluation.description or evaluation.check_name)
    for event in events:
        if event.is_step_failure and event.step_key in steps and event.step_failure_data.error is not None:
            return _root(event.step_failure_data.error)
    if _materialization(table, events) is not None:
        return None
    for event in events:
        if event.event_type == dg.DagsterEventType.RUN_FAILURE and event.job_failure_data.error is not None:
            return _root(event.job_failure_data.error)
    return None


def _root(error: SerializableErrorInfo) -> str:
    error = innermost(error)
    return ENDED if error.cls_name == INTERRUPTED else one_line(words(error))


def _materialization(table: str, events: Iterable[dg.DagsterEvent]) -> dict[str, Any] | None:
    key = dg.AssetKey(f"{table}_table")
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == key:
            metadata = event.step_materialization_data.materialization.metadata
            return {name: getattr(value, "value", value) for name, value in metadata.items()}
    return None

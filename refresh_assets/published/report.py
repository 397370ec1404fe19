"""What a run did to each table, read from its events. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from refresh_assets.reasons import INTERRUPTED, evaluations, innermost, on_one_line, words

ENDED = "the run was ended before the table was refreshed; nothing of it was changed"


@dataclass(frozen=True)
class TableReport:
    """One table of a run, as `refresh-assets run --json` prints it; counts are None where they are not known."""

    table: str
    outcome: str
    rows_staged: int | None = None
    rows: int | None = None
    added: int | None = None
    changed: int | None = None
    removed: int | None = None
    changed_parts: list[str] = field(default_factory=list)
    job_key: str | None = None
    run_id: str | None = None
    error: str | None = None
    message: str = ""

    @classmethod
    def of(cls, table: str, run_id: str, events: Sequence[dg.DagsterEvent]) -> TableReport:
        """Read a table's report from the events of a run."""
        error = _error(table, events)
        if error is not None:
            return cls(table, "failed", run_id=run_id, error=error)
        told = _materialization(table, events)
        if told is None:
            return cls(table, "failed", run_id=run_id, error=ENDED)
        return cls(
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

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def line(self) -> str:
        """The message for a log line."""
        return f"failed: {self.error}" if self.failed else self.message

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        del values["message"]
        return values


def _error(table: str, events: Sequence[dg.DagsterEvent]) -> str | None:
    """Return why a table was not refreshed: the first failure among its steps."""
    steps = ("manifest", f"{table}_csv", f"{table}_table")
    for evaluation in evaluations(events):
        if evaluation.blocking and not evaluation.passed and evaluation.asset_key.to_user_string() in steps:
            return on_one_line(evaluation.description or evaluation.check_name)
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
    return ENDED if error.cls_name == INTERRUPTED else on_one_line(words(error))


def _materialization(table: str, events: Iterable[dg.DagsterEvent]) -> dict[str, Any] | None:
    key = dg.AssetKey(f"{table}_table")
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == key:
            metadata = event.step_materialization_data.materialization.metadata
            return {name: getattr(value, "value", value) for name, value in metadata.items()}
    return None

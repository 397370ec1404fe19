"""What went wrong in one run: which tables, why, and in which words a person is told. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import dagster as dg
from dagster import AssetCheckEvaluation
from dagster._core.storage.tags import (
    PARTITION_NAME_TAG,
    RETRY_NUMBER_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
)

from refresh_assets.alerts.declared import instant_of
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.text import Facts
from refresh_assets.reasons import evaluations, run_reason, step_reasons

_TELLING = {
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.RUN_FAILURE,
    dg.DagsterEventType.RUN_CANCELING,
    dg.DagsterEventType.RUN_CANCELED,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    dg.DagsterEventType.ENGINE_EVENT,
}
_STEPS_SHOWN = 20


@dataclass(frozen=True)
class Incident:
    """A run that ended, at an instant, with those of its events that tell of failures."""

    look: Look
    run: dg.DagsterRun
    at: datetime
    events: Sequence[dg.DagsterEvent]

    @classmethod
    def of(cls, look: Look, run: dg.DagsterRun, at: datetime) -> Incident:
        entries = look.instance.all_logs(run.run_id, of_type=_TELLING)
        return cls(look, run, at, [entry.dagster_event for entry in entries if entry.dagster_event is not None])

    @property
    def ended_by_limit(self) -> bool:
        """Whether a cancelled run was cancelled because it ran for too long, or was ended as failed."""
        return any(
            event.event_type == dg.DagsterEventType.RUN_FAILURE or "maximum runtime" in (event.message or "")
            for event in self.events
            if event.event_type != dg.DagsterEventType.RUN_CANCELED
        )

    @property
    def tables(self) -> list[str]:
        """The declared tables that were not refreshed: those of the failed steps, else all that the run was for."""
        touched = self.look.declared.touched(self.run)
        named = {self.look.declared.table_of(step) for step in self._reasons}
        if not named or None in named:
            return touched
        return sorted(table for table in named if table)

    @property
    def units(self) -> list[str]:
        """What has to work again before this incident is over."""
        return units_of(self.run, self.tables)

    @property
    def failed_checks(self) -> list[AssetCheckEvaluation]:
        """The checks of severity ERROR that failed."""
        found = evaluations(self.events)
        return [x for x in found if not x.passed and x.severity == dg.AssetCheckSeverity.ERROR]

    def failed_since(self, began: datetime) -> Facts:
        """Say that the run failed, and since when its tables or its job do."""
        tables = self.tables
        return Facts(
            about=tables[0] if len(tables) == 1 else self.run.job_name,
            what=self._what,
            reason=self._reason,
            since=began,
            state=self.look.state_of(tables),
            last_success=self.look.last_verified(tables) if tables else self._last_success,
            advice=self._advice(tables),
            run_url=self.look.run_url(self.run.run_id),
            asset_url=self.look.asset_url(tables),
        )

    def failed_a_check(self) -> Facts:
        """Say that the run succeeded and that checks failed."""
        keys = sorted({check.asset_key.to_user_string() for check in self.failed_checks})
        tables = sorted({self.look.declared.table_of(key) or "" for key in keys} - {""})
        return Facts(
            about=(tables or keys)[0] if len(tables or keys) == 1 else self.run.job_name,
            happened="failed a check",
            what=f"The run succeeded, but what it left is not as it should be: {self._named_run}.",
            reason="\n".join(map(self._line, self.failed_checks)),
            since=self.at,
            state=self.look.state_of(tables),
            advice="Open the checks on the page of the asset; a check passes again when its reason is mended "
            "and the table refreshed.",
            run_url=self.look.run_url(self.run.run_id),
            asset_url=self.look.asset_url(tables),
        )

    @cached_property
    def _reasons(self) -> dict[str, str]:
        return step_reasons(self.events)

    @property
    def _reason(self) -> str:
        """Return the reasons of the failed steps, named where there are several, then what failed beside them."""
        reasons = self._reasons
        lines = [f"{self._named(step)}: {reason}" if len(reasons) > 1 else reason for step, reason in reasons.items()]
        if len(lines) > _STEPS_SHOWN:
            lines[_STEPS_SHOWN:] = [f"and {len(lines) - _STEPS_SHOWN} more steps"]
        beside = [f"failed check: {self._line(check)}" for check in self.failed_checks if not check.blocking]
        return "\n".join([*(lines or [run_reason(self.events)]), *beside])

    def _line(self, check: AssetCheckEvaluation) -> str:
        return f"{self._named(check.asset_key.to_user_string())}: {check.check_name}: {check.description or ''}"

    def _named(self, step: str) -> str:
        return self.look.declared.table_of(step) or step

    @property
    def _what(self) -> str:
        steps = list(self._reasons)
        shown = ", ".join(steps[:_STEPS_SHOWN])
        where = f"Step{'s' if len(steps) > 1 else ''} {shown} of {self._named_run}" if steps else self._named_run
        return where[0].upper() + where[1:] + "."

    @property
    def _named_run(self) -> str:
        tags = self.run.tags
        partition = f", partition {tags[PARTITION_NAME_TAG]}" if PARTITION_NAME_TAG in tags else ""
        tried = f", after {tags[RETRY_NUMBER_TAG]} automatic retries" if RETRY_NUMBER_TAG in tags else ""
        return (
            f"job {self.run.job_name}, run {self.run.run_id[:8]}{partition}, started by {started_by(self.run)}{tried}"
        )

    @property
    def _last_success(self) -> datetime | None:
        filters = dg.RunsFilter(job_name=self.run.job_name, statuses=[dg.DagsterRunStatus.SUCCESS])
        records = self.look.instance.get_run_records(filters, limit=1)
        return instant_of(records[0].end_time) if records and records[0].end_time else None

    def _advice(self, tables: Sequence[str]) -> str:
        again = "run it again from its page"
        if tables:
            some = tables if len(tables) < len(self.look.declared.files) else []
            command = " ".join(["refresh-assets run", *(f"--table {table}" for table in some)])
            again += f" or with `{command}`"
        return f"Mend what the reason says, then {again}."


def units_of(run: dg.DagsterRun, tables: Sequence[str]) -> list[str]:
    """Return the things of which each fails or works by itself: the tables, else the chosen assets, else the job."""
    if tables:
        return [f"table {table}" for table in tables]
    if run.asset_selection:
        return sorted(f"asset {key.to_user_string()}" for key in run.asset_selection)
    return [f"job {run.job_name}"]


def started_by(run: dg.DagsterRun) -> str:
    """Say who or what started a run."""
    tags = run.tags
    if SCHEDULE_NAME_TAG in tags:
        return f"the schedule {tags[SCHEDULE_NAME_TAG]}"
    if SENSOR_NAME_TAG in tags:
        return f"the sensor {tags[SENSOR_NAME_TAG]}"
    return "the command line" if "refresh/started_by" in tags or run.remote_job_origin is None else "hand"

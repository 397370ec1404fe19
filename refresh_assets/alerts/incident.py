"""What went wrong in one run: which tables, why, and in which words a person is told. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import dagster as dg
from dagster import AssetCheckEvaluation, RunRecord
from dagster._core.remote_representation.code_location import is_implicit_asset_job_name

from refresh_assets.alerts.check_advice import FailedCheck, advice_on, what_failed
from refresh_assets.alerts.declared import LOADED, instant_of, outcomes
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.naming import about_run, named_run, units_of
from refresh_assets.alerts.text import Facts, listed
from refresh_assets.reasons import evaluations, run_reason, step_reasons

_TELLING = {
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.RUN_FAILURE,
    dg.DagsterEventType.RUN_CANCELING,
    dg.DagsterEventType.RUN_CANCELED,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ENGINE_EVENT,
}
_STEPS_SHOWN = 20


@dataclass(frozen=True)
class Incident:
    """A run that began and ended at these instants, with those of its events that tell what became of it."""

    look: Look
    run: dg.DagsterRun
    began: datetime
    at: datetime
    events: Sequence[dg.DagsterEvent]

    @classmethod
    def of(cls, look: Look, record: RunRecord) -> Incident:
        run = record.dagster_run
        began = instant_of(record.start_time) if record.start_time is not None else record.create_timestamp
        entries = look.instance.all_logs(run.run_id, of_type=_TELLING)
        events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
        return cls(look, run, began, ended_at(record), events)

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
        return sorted(table for table in named if table) if named and named <= set(touched) else touched

    @property
    def about(self) -> str:
        """What failed: tables by their names, or the job where no step of theirs came to failing."""
        named = {self.look.declared.table_of(step) for step in self._reasons}
        all_of_job = len(self.tables) > 1 and (not named or None in named)
        return about_run(
            self.run, [] if all_of_job and not is_implicit_asset_job_name(self.run.job_name) else self.tables
        )

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
        asset = None if tables else self.look.declared.asset_of(self.run)
        if asset is None:
            state, page = self.look.state_of(tables, self.began), self.look.asset_url(tables)
        else:
            state, page = self.look.last_materialized(asset), self.look.page_of(asset)
        return Facts(
            about=self.about,
            what=self._what,
            reason=self._reason,
            since=began,
            state=state,
            last_success=self.look.last_verified(tables) if tables else self._last_success,
            advice=self._advice(tables, asset),
            run_url=self.look.run_url(self.run.run_id),
            asset_url=page,
        )

    def failed_a_check(self) -> Facts:
        """Say that the run succeeded and that checks failed."""
        checks = self.failed_checks
        named = sorted({self._named(check.asset_key.to_user_string()) for check in checks})
        tables = [name for name in named if name in self.look.declared.files]
        loaded = {table for table, outcome in self._outcomes.items() if outcome == LOADED}
        found = [FailedCheck(check.check_name, *self._table_of(check, loaded)) for check in checks]
        return Facts(
            about=listed(named),
            happened="failed a check",
            what=f"{what_failed(found)}: {named_run(self.run)}.",
            reason="\n".join(self._line(check, alone=len(named) == 1) for check in checks),
            since=self.at,
            state=self.look.state_of(tables, self.began),
            advice=advice_on(found),
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

    @cached_property
    def _outcomes(self) -> dict[str, str]:
        """What the run did to each table that it came to."""
        return outcomes(self.events, self.look.declared.files)

    def _table_of(self, check: AssetCheckEvaluation, loaded: set[str]) -> tuple[str | None, bool]:
        name = self._named(check.asset_key.to_user_string())
        return (name, name in loaded) if name in self.look.declared.files else (None, False)

    def _line(self, check: AssetCheckEvaluation, *, alone: bool = False) -> str:
        name = "" if alone else f"{self._named(check.asset_key.to_user_string())}: "
        return f"{name}{check.check_name}: {check.description or 'failed'}"

    def _named(self, step: str) -> str:
        return self.look.declared.table_of(step) or step

    @property
    def _what(self) -> str:
        steps = list(self._reasons)
        shown = ", ".join(steps[:_STEPS_SHOWN])
        run = named_run(self.run)
        where = f"Step{'s' if len(steps) > 1 else ''} {shown} of {run}" if steps else run
        return where[0].upper() + where[1:] + "."

    @property
    def _last_success(self) -> datetime | None:
        filters = dg.RunsFilter(job_name=self.run.job_name, statuses=[dg.DagsterRunStatus.SUCCESS])
        records = self.look.instance.get_run_records(filters, limit=1)
        return instant_of(records[0].end_time) if records and records[0].end_time else None

    def _advice(self, tables: Sequence[str], asset: dg.AssetKey | None) -> str:
        command = self.look.declared.command_of(asset) if asset is not None else ""
        if tables:
            some = tables if len(tables) < len(self.look.declared.files) else []
            command = " ".join(["refresh-assets run", *(f"--table {table}" for table in some)])
        again = "run it again from its page" + (f" or with `{command}`" if command else "")
        return f"Mend what the reason says, then {again}."


def ended_at(record: RunRecord) -> datetime:
    return instant_of(record.end_time) if record.end_time is not None else record.update_timestamp

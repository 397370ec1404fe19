"""What became of the runs of requests. Upper floor: imports dagster."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg
import psycopg

from refresh_assets.alerts.limits import Limits
from refresh_assets.alerts.owner import SETTLED_TAG
from refresh_assets.alerts.text import instant
from refresh_assets.postgres.connect import Connection
from refresh_assets.reasons import run_reason, step_reasons
from refresh_assets.requests.claim import InWork, beat, bind, in_work
from refresh_assets.requests.fence import TOKEN_TAG
from refresh_assets.requests.settings import RequestSettings
from refresh_assets.requests.settle import call_off, complete, fail, postpone, release_strays, stale
from refresh_assets.secrets import mask, masked

NOT_ALL = (
    "not all of it is refreshed: another refresh held the lock of a table, or the request was changed meanwhile; it is "
    "run again"
)
DELETED = "its run was deleted before it was seen to end"
_ENDED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
# Dagster submits a run of this status when it is asked again for its run key.
_UNSUBMITTED = dg.DagsterRunStatus.NOT_STARTED
_WAITING = {dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ledger:
    """The claims and their runs, looked at once; `deadline` by time.monotonic(), `problems` what could not be read."""

    instance: dg.DagsterInstance
    conn: Connection
    settings: RequestSettings
    limits: Limits
    deadline: float
    problems: list[str] = field(default_factory=list)

    def settle(self) -> int:
        """End the claims whose runs ended or are gone; return how many claims are in work after that."""
        self._end_the_dead()
        left = 0
        for claim in in_work(self.conn, schema=self.settings.schema):
            if time.monotonic() > self.deadline or not self._try(claim):
                left += 1
        return left

    def _try(self, claim: InWork) -> bool:
        try:
            return self._settled(claim)
        except psycopg.Error:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other requests must be run
            # Not by `exception`, which would write down what an error echoes.
            _LOG.error("requests: %s: %s", claim.instance, mask(traceback.format_exc()))
            self.problems.append(f"request {claim.instance!r}: its run could not be read: {masked(error)}")
            return False

    def _end_the_dead(self) -> None:
        """Let Dagster know of runs whose process is gone."""
        limits = self.limits
        release_strays(self.conn, limits.silent_after, schema=self.settings.schema)
        found = stale(self.conn, limits.silent_after, limits.second_look, schema=self.settings.schema)
        for dead in found:
            run = self.instance.get_run_by_id(dead.run_id) if dead.run_id else None
            if run is not None and run.status not in _ENDED:
                self.instance.report_run_failed(
                    run,
                    f"The process of this run is gone: the last heartbeat of its request {dead.instance!r} was at "
                    f"{instant(dead.beat_at)}. It was killed, ran out of memory, is frozen, or its host went down.",
                )

    def _settled(self, claim: InWork) -> bool:
        """Take note of how a claim's run stands; tell whether the claim is over."""
        run = self._run_of(claim)
        if run is None:
            if claim.run_id is None:
                return False
            self._fail(claim, DELETED)
        elif run.status not in _ENDED:
            if run.status in _WAITING:
                beat(self.conn, claim.token, schema=self.settings.schema)
            return False
        else:
            # First the tag: without it a person is told of the run, and here of the request.
            if SETTLED_TAG not in run.tags:
                self.instance.add_run_tags(run.run_id, {SETTLED_TAG: run.status.value})
            self._end(claim, run)
        return True

    def _run_of(self, claim: InWork) -> dg.DagsterRun | None:
        if claim.run_id is not None:
            return self.instance.get_run_by_id(claim.run_id)
        runs = self.instance.get_runs(dg.RunsFilter(tags={TOKEN_TAG: claim.token}))
        found = next((run for run in reversed([*runs]) if run.status != _UNSUBMITTED), None)
        # Another run may have begun meanwhile: then it has the claim, and this one ends nothing.
        if found is None or not bind(self.conn, claim.token, found.run_id, schema=self.settings.schema):
            return None
        return found

    def _end(self, claim: InWork, run: dg.DagsterRun) -> None:
        schema = self.settings.schema
        if run.status == dg.DagsterRunStatus.SUCCESS:
            if not complete(self.conn, claim.token, schema=schema):
                postpone(self.conn, claim.token, NOT_ALL, settings=self.settings)
            return
        events = [entry.dagster_event for entry in self.instance.all_logs(run.run_id) if entry.dagster_event]
        if run.status == dg.DagsterRunStatus.CANCELED and not _ran_too_long(events):
            call_off(self.conn, claim.token, "its run was cancelled", schema=schema)
        else:
            self._fail(claim, _reason(events))

    def _fail(self, claim: InWork, error: str) -> None:
        fail(self.conn, claim.token, error, settings=self.settings)


def _ran_too_long(events: Iterable[dg.DagsterEvent]) -> bool:
    return any(
        event.event_type == dg.DagsterEventType.RUN_FAILURE or "maximum runtime" in (event.message or "")
        for event in events
        if event.event_type != dg.DagsterEventType.RUN_CANCELED
    )


def _reason(events: Iterable[dg.DagsterEvent]) -> str:
    events = [*events]
    reasons = step_reasons(events)
    lines = [f"{step}: {reason}" if len(reasons) > 1 else reason for step, reason in reasons.items()]
    return "\n".join(lines) or run_reason(events)

"""The sensor `requests`: it claims what is due and gives it runs. Upper floor: imports dagster."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from refresh_assets.alerts.limits import usable_limits
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.requests.claim import Claim, claim, held, plan
from refresh_assets.requests.ended import Ledger
from refresh_assets.requests.kinds import Kind, Plan, planned
from refresh_assets.requests.runs import run_request
from refresh_assets.requests.settings import RequestSettings, read_requests
from refresh_assets.requests.settle import complete, park, prune
from refresh_assets.requests.standing import RequestsStatus, standing
from refresh_assets.requests.storage import connect_requests, database_time
from refresh_assets.requests.task import decode
from refresh_assets.secrets import masked, masking
from refresh_assets.settings import Env, read_timezone

Jobs = Sequence[dg.JobDefinition | UnresolvedAssetJobDefinition]
# The kinds of requests that a repository can serve; the first one is meant where the data do not say.
KindsOf = Callable[[dg.RepositoryDefinition], Mapping[str, Kind]]

# Claimed at one look, and in work at once: what is not claimed can still be moved, cancelled and overtaken.
CLAIMED_AT_ONCE, IN_WORK = 10, 20
# A claim gets a run within a look. Where it has none after this long, the look was killed, or creating the run failed.
WITHOUT_RUN = timedelta(seconds=20)
# Dagster gives a tick 60 seconds.
LOOK_SECONDS = 30.0
_LOG = logging.getLogger(__name__)


def requests_sensor(interval: int, jobs: Jobs, kinds_of: KindsOf) -> dg.SensorDefinition:
    """Return the sensor, which looks every so many seconds at the least."""

    @dg.sensor(
        name="requests",
        jobs=[*jobs],
        minimum_interval_seconds=interval,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Runs what rows of the table of requests ask for, each once, at its instant. See docs/requests.md.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with masking():
            done = tick(context, kinds_of)
        return dg.SensorResult(
            run_requests=[*done.runs], skip_reason=None if done.runs else dg.SkipReason(str(done.status))
        )

    return sensor


@dataclass(frozen=True)
class Done:
    """What a look did: the runs to be created, and how requests stand then."""

    runs: Sequence[dg.RunRequest]
    status: RequestsStatus


def tick(context: dg.SensorEvaluationContext, kinds_of: KindsOf, env: Env = os.environ) -> Done:
    """Take note of the runs that ended, claim what is due, plan it.

    Raises SettingsError, and RefreshError or psycopg.Error where the database cannot be reached.
    """
    repository = context.repository_def
    if repository is None:
        raise AssertionError("the sensor is evaluated with its repository")
    deadline = time.monotonic() + LOOK_SECONDS
    settings, limits = read_requests(env), usable_limits(env)
    with connect_requests(env) as conn:
        ledger = Ledger(context.instance, conn, settings, limits, deadline)
        in_work = ledger.settle()
        desk = _Desk(conn, settings, repository, kinds_of(repository), database_time(conn), env)
        room = max(0, min(CLAIMED_AT_ONCE, IN_WORK - in_work))
        runs = desk.runs(room, without_run=max(WITHOUT_RUN, 2 * timedelta(seconds=settings.interval)))
        prune(conn, schema=settings.schema)
        status = standing(conn, settings.schema, read_timezone(env))
    if status.others:
        _LOG.warning("requests: %s row(s) of other task names are left alone", status.others)
    if ledger.problems and not runs:
        # Three ticks that fail are told by mail.
        raise RefreshError("; ".join(ledger.problems))
    return Done(runs, status)


@dataclass(frozen=True)
class _Desk:
    conn: Connection
    settings: RequestSettings
    repository: dg.RepositoryDefinition
    kinds: Mapping[str, Kind]
    now: datetime
    env: Env

    def runs(self, room: int, without_run: timedelta) -> Sequence[dg.RunRequest]:
        """Claim what is due, and take again what is held without a run; a claim that is no sound request is parked."""
        schema = self.settings.schema
        claims = [*claim(self.conn, room, schema=schema)] if room else []
        # Where one of these keeps failing to get its run, those before it get theirs.
        claims += held(self.conn, CLAIMED_AT_ONCE, untouched=without_run, schema=schema)
        found = [self._run(one) for one in claims]
        return [run for run in found if run is not None]

    def _run(self, claimed: Claim) -> dg.RunRequest | None:
        schema = self.settings.schema
        try:
            wanted = planned(decode(claimed.raw), self.kinds, self.now)
            self._validate(wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other requests must be run
            park(self.conn, claimed.token, masked(error, self.env), schema=schema)
            return None
        plan(self.conn, claimed.token, [*wanted.parts], schema=schema)
        if not wanted.left(claimed.done):
            complete(self.conn, claimed.token, schema=schema)
            return None
        return run_request(claimed, wanted)

    def _validate(self, wanted: Plan) -> None:
        """Let Dagster say now what it would say of the run: there, it would keep all other runs from being created."""
        job = self.repository.get_job(wanted.job)
        known = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
        named = {*wanted.assets, *(asset for assets in wanted.parts.values() for asset in assets)}
        if named - known:
            raise RefreshError(f"job {wanted.job} has no asset {', '.join(sorted(named - known))}")
        dg.validate_run_config(job, dict(wanted.config))

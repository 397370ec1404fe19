"""The sensor `requests` in this process: requests, looks one by one, and runs that are executed or only recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from refresh_assets.alerts.collect_trouble import once
from refresh_assets.alerts.sensors import COLLECTORS
from refresh_assets.definitions import build_defs
from refresh_assets.postgres.connect import connect
from refresh_assets.postgres.embedded import EmbeddedServer
from refresh_assets.requestable import kinds_of_requests
from refresh_assets.requests import client
from refresh_assets.requests.claim import bind
from refresh_assets.requests.fence import seal
from refresh_assets.requests.sensors import tick
from refresh_assets.requests.storage import connect_requests
from refresh_assets.requests.told import failed_requests
from refresh_assets.settings import read_postgres
from refresh_assets_tests.postgres_fixtures import new_database
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.requests_fixtures import TASKS, application
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows
from refresh_assets_tests.smtp_server import Caught, catching
from refresh_assets_tests.watchtower import Watchtower, job_origin, mail_settings, storage_of

ONE = {"tables": ["datasets"]}
EMPTIED = (
    *(f"refresh_requests.{table}" for table in ("scheduled_tasks", "request_claims", "request_outcomes")),
    *(f"refresh_alerts.{table}" for table in ("alert_outbox", "noted", "seen_run", "spell", "run_heartbeat")),
    *(f"dagster.{table}" for table in ("runs", "run_tags", "event_logs")),
)


@dataclass
class Clerk:
    """Requests, looks of the sensor, and runs."""

    tower: Watchtower
    conn: psycopg.Connection[Any]

    def ask(self, name: str, data: dict[str, Any] | None = ONE, **options: Any) -> None:
        assert client.schedule_if_not_exists(self.conn, name, data=data, **options)

    def look(self) -> list[dg.RunRequest]:
        context = dg.build_sensor_context(instance=self.tower.instance, repository_def=self.tower.repository)
        return list(tick(context, kinds_of_requests).runs)

    def create(self, request: dg.RunRequest) -> dg.DagsterRun:
        """Record the run that a request for one asks for, as the daemon does."""
        assert request.asset_selection is not None
        return self.tower.instance.create_run_for_job(
            self.tower.repository.get_job(str(request.job_name)),
            run_config=request.run_config,
            tags={**request.tags, "dagster/run_key": str(request.run_key), "dagster/sensor_name": "requests"},
            asset_selection=frozenset(request.asset_selection),
            remote_job_origin=job_origin("refresh_assets", str(request.job_name)),
        )

    def one(self) -> tuple[dg.RunRequest, dg.DagsterRun]:
        """Look, and record the one run that is asked for."""
        (request,) = self.look()
        return request, self.create(request)

    def execute(self, run: dg.DagsterRun) -> str:
        job = self.tower.repository.get_job(run.job_name)
        execute_run(InMemoryJob(job), run, self.tower.instance)
        return self.status(run)

    def run(self) -> list[str]:
        """Look once, and execute what the sensor asks for; return how each run ended."""
        return [self.execute(self.create(request)) for request in self.look()]

    def write(self, run: dg.DagsterRun, *tables: str) -> None:
        """Write tables of a request as its run does, without executing it."""
        with connect_requests() as conn:
            for table in tables or ("datasets",):
                with conn.transaction():
                    seal(conn, run.tags["refresh/request_token"], run.run_id, table)

    def begin(self, run: dg.DagsterRun) -> None:
        """Let a run's process begin, and write no heartbeat."""
        with connect_requests() as conn:
            assert bind(conn, run.tags["refresh/request_token"], run.run_id, started=True)
        self.set_status(run, "STARTED")

    def set_status(self, run: dg.DagsterRun, status: str) -> None:
        self.tower.shop.admin.execute("UPDATE dagster.runs SET status = %s WHERE run_id = %s", [status, run.run_id])

    def status(self, run: dg.DagsterRun) -> str:
        found = self.tower.instance.get_run_by_id(run.run_id)
        assert found is not None
        return found.status.value

    def told(self) -> list[Caught]:
        """Have the sensor of mails look once; return the mails that this sends."""
        before = len(self.tower.mailserver.mails)
        self.tower.look([*COLLECTORS, once("request", failed_requests)])
        return self.tower.mailserver.mails[before:]

    def due_now(self) -> None:
        """Let every delay be over."""
        self.conn.execute(f"UPDATE {TASKS} SET execution_time = now() WHERE NOT picked")

    def later(self) -> None:
        """Let ten minutes pass for all that is in work."""
        self.conn.execute(f"UPDATE {TASKS} SET last_heartbeat = last_heartbeat - interval '10 minutes'")
        self.conn.execute(
            "UPDATE refresh_requests.request_claims SET suspected_at = suspected_at - interval '10 minutes'"
        )

    def get(self, name: str) -> client.Request:
        found = client.get(self.conn, name)
        assert found is not None
        return found

    def loads(self) -> int:
        return int(self.tower.shop.rows("SELECT count(*) FROM etl.refresh_loads WHERE job = 'datasets.csv'")[0][0])


@pytest.fixture(scope="module")
def office(postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clerk]:
    """Return one clerk for all tests of a module: Dagster's storage takes seconds to make."""
    folder = tmp_path_factory.mktemp("office")
    with new_database(postgres_server) as database, pytest.MonkeyPatch.context() as patch:
        (folder / "files").mkdir()
        env = {**database, "LEARN_BASE": (folder / "files").as_uri(), "REFRESH_HOME": str(folder / "home")}
        for name in ("PGPASSFILE", "DAGSTER_POSTGRES_URL", "REFRESH_LICENSES", "REFRESH_SCHEMA", "ALERT_PING_URL"):
            patch.delenv(name, raising=False)
        for name, value in {**env, "DAGSTER_HOME": ""}.items():
            patch.setenv(name, value)
        with (
            catching() as mailserver,
            storage_of(Path(env["REFRESH_HOME"])) as instance,
            connect(read_postgres(env), "test admin") as admin,
            application(env) as conn,
        ):
            for name, value in mail_settings(mailserver).items():
                patch.setenv(name, value)
            connect_requests().close()
            shop = Shop(folder / "files", env, admin)
            yield Clerk(Watchtower(shop, instance, build_defs().get_repository_def(), mailserver), conn)


@pytest.fixture
def clerk(office: Clerk) -> Clerk:
    """Return the clerk with a new publication, and with nothing left of the tests before."""
    shop = office.tower.shop
    shop.publish(dataset_rows(40))
    shop.publish_file("dataset_rights.csv", csv_text(rights_rows(5), RIGHTS_HEADER), 5)
    shop.admin.execute("DROP SCHEMA IF EXISTS etl CASCADE")
    there = [name for name in EMPTIED if shop.rows(f"SELECT to_regclass('{name}')") != [(None,)]]
    shop.admin.execute("TRUNCATE " + ", ".join(there) + " CASCADE")
    return office

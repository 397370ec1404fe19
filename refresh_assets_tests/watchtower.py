"""The failure sensor in this process: a shop, Dagster's storage in Postgres, a mail server, and looks one by one."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
)

from refresh_assets.alerts.collect_trouble import Collector
from refresh_assets.alerts.outbox import connect_outbox
from refresh_assets.alerts.sensors import COLLECTORS, tick
from refresh_assets.definitions import build_defs
from refresh_assets.instance import prepare_home
from refresh_assets.postgres.embedded import EmbeddedServer
from refresh_assets.published.run import House, refresh
from refresh_assets.published.schedules import JOB
from refresh_assets.settings import read_settings
from refresh_assets_tests.postgres_fixtures import new_database
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, enter, new_shop, rights_rows
from refresh_assets_tests.smtp_server import Caught, Mailserver, catching

UI = "http://dagster.example.org:3000"


@dataclass
class Watchtower:
    """Refreshes that succeed or fail, looks of the sensor, and the mail that arrived."""

    shop: Shop
    instance: dg.DagsterInstance
    repository: dg.RepositoryDefinition
    mailserver: Mailserver

    location: str | None = None
    """The code location that the sensor believes to be in."""

    def look(self, collectors: Sequence[Collector] = COLLECTORS) -> str:
        """Have the sensor look once; return what its tick says."""
        context = dg.SensorEvaluationContext(
            instance_ref=None,
            last_tick_completion_time=None,
            last_run_key=None,
            cursor=None,
            instance=self.instance,
            repository_def=self.repository,
            code_location_origin=RegisteredCodeLocationOrigin(self.location) if self.location else None,
        )
        return tick(context, collectors=collectors)

    def told(self) -> list[Caught]:
        """Have the sensor look once; return the mails that this sends."""
        before = len(self.mailserver.mails)
        self.look()
        return self.mailserver.mails[before:]

    def told_from(self, location: str) -> list[Caught]:
        """Have the sensor look once as one of this code location."""
        self.location = location
        return self.told()

    def subjects(self) -> list[str]:
        return [str(caught.mail["Subject"]) for caught in self.told()]

    def refresh(self, *tables: str, accept_shrink: bool = False) -> str:
        """Refresh tables in this process as `refresh-assets run` does; return the run's id."""
        wanted = list(tables) or ["datasets"]
        done = refresh(House(self.repository), read_settings(), wanted, accept_shrink=accept_shrink)
        assert done.reports[0].run_id
        return done.reports[0].run_id

    def break_file(self) -> None:
        """Publish a file that has a row more than the manifest says."""
        self.shop.publish(dataset_rows(41), promised=40)

    def mend_file(self) -> None:
        self.shop.publish(dataset_rows(40))

    @contextlib.contextmanager
    def lock_held(self) -> Iterator[None]:
        """Let another session refresh datasets."""
        with psycopg.connect(self.shop.admin.info.dsn, password=self.shop.env["PGPASSWORD"]) as other:
            other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl'))")
            yield

    def create_run(self, *, job: str = JOB, tables: Sequence[str] = ("datasets",), **fields: Any) -> dg.DagsterRun:
        """Record a run that nobody executes."""
        keys = {dg.AssetKey(f"{table}{part}") for table in tables for part in ("_csv", "_table")}
        return self.instance.add_run(
            dg.DagsterRun(
                job_name=job,
                run_id=str(uuid.uuid4()),
                asset_selection=frozenset(keys),
                remote_job_origin=job_origin("refresh_assets", job),
                **fields,
            )
        )

    def copy(self, run: dg.DagsterRun, times: int) -> None:
        """Record so many more runs with the same events."""
        self.shop.admin.execute(
            """
            CREATE TEMPORARY TABLE copies AS SELECT gen_random_uuid()::text AS id FROM generate_series(1, %(times)s);
            INSERT INTO dagster.runs (
                run_id, pipeline_name, status, run_body, create_timestamp, update_timestamp, start_time, end_time
            )
            SELECT
                copies.id, pipeline_name, status, replace(run_body, run_id, copies.id), create_timestamp,
                clock_timestamp() AT TIME ZONE 'UTC', start_time, extract(epoch FROM clock_timestamp())
            FROM dagster.runs, copies
            WHERE run_id = %(run_id)s;
            INSERT INTO dagster.event_logs (run_id, event, dagster_event_type, timestamp)
            SELECT copies.id, replace(event, run_id, copies.id), dagster_event_type, timestamp
            FROM dagster.event_logs, copies
            WHERE run_id = %(run_id)s;
            DROP TABLE copies
            """.replace("%(times)s", str(times)).replace("%(run_id)s", f"'{run.run_id}'")
        )

    def fail(self, run: dg.DagsterRun, why: str = "the process exited") -> None:
        self.instance.report_run_failed(run, why)

    def dated(self, run: dg.DagsterRun, age: timedelta) -> None:
        """Let a run have ended so long ago."""
        when = ago(seconds=age.total_seconds())
        self.shop.admin.execute(
            "UPDATE dagster.runs SET update_timestamp = %s, end_time = %s WHERE run_id = %s",
            [when.replace(tzinfo=None), when.timestamp(), run.run_id],
        )

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement on the tables of the sensor."""
        with connect_outbox() as conn:
            cursor = conn.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def outbox(self, columns: str = "subject") -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT {columns} FROM refresh_alerts.alert_outbox ORDER BY alert_id")


def job_origin(location: str, job: str) -> RemoteJobOrigin:
    """Return the origin of a job that a code location of the workspace has."""
    return RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__"), job)


@contextlib.contextmanager
def storage_of(home: Path) -> Iterator[dg.DagsterInstance]:
    os.environ["DAGSTER_HOME"] = str(prepare_home(home))
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.fixture(scope="session")
def furnished(postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of a database to copy, which has Dagster's tables: making them takes a second each time."""
    with new_database(postgres_server) as database:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in database.items():
                patch.setenv(name, value)
            patch.setenv("DAGSTER_HOME", "")
            with storage_of(tmp_path_factory.mktemp("furnished")):
                pass
        yield database["PGDATABASE"]


@cache
def repository() -> dg.RepositoryDefinition:
    """Return the definitions, which are the same for every tower: settings are read when they are needed."""
    return build_defs().get_repository_def()


@pytest.fixture
def tower(
    postgres_server: EmbeddedServer, furnished: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watchtower]:
    with new_database(postgres_server, furnished) as database, new_shop(database, tmp_path) as shop:
        enter(shop, monkeypatch)
        shop.publish(dataset_rows(40))
        shop.publish_file("dataset_rights.csv", csv_text(rights_rows(5), RIGHTS_HEADER), 5)
        monkeypatch.setenv("DAGSTER_HOME", "")
        monkeypatch.delenv("ALERT_PING_URL", raising=False)
        with catching() as mailserver, storage_of(Path(shop.env["REFRESH_HOME"])) as instance:
            for name, value in mail_settings(mailserver).items():
                monkeypatch.setenv(name, value)
            yield Watchtower(shop, instance, repository(), mailserver)


def mail_settings(mailserver: Mailserver) -> dict[str, str]:
    return {
        "SMTP_HOST": "127.0.0.1",
        "SMTP_PORT": str(mailserver.port),
        "SMTP_SECURITY": "none",
        "ALERT_TO": "team@example.org",
        "ALERT_FROM": "refresh@example.org",
        "DAGSTER_UI_URL": UI,
    }


def ago(**span: float) -> datetime:
    return datetime.now(timezone.utc) - timedelta(**span)


def schedule_state(status: InstigatorStatus, name: str) -> InstigatorState:
    """Return what the daemon or the UI notes of a schedule of the product."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("refresh_assets"), "__repository__")
    data = ScheduleInstigatorData("17 4 * * 1", start_timestamp=None)
    return InstigatorState(RemoteInstigatorOrigin(repository, name), InstigatorType.SCHEDULE, status, data)

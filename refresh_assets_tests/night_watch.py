"""A running installation with shortened bounds: daemon, code servers, run workers, Postgres, a mail server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
from dagster._core.events import DagsterEvent

from refresh_assets.definitions import build_defs
from refresh_assets.instance import prepare_home
from refresh_assets.postgres.connect import connect
from refresh_assets.postgres.embedded import EmbeddedServer
from refresh_assets.settings import read_postgres
from refresh_assets_tests.postgres_fixtures import new_database
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows
from refresh_assets_tests.smtp_server import Caught, Mailserver, catching, free_port
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import job_origin, mail_settings

# Another team's code location: a job that never ends, one that always fails, a sensor that does, and one that hangs.
ELSEWHERE = """
    import time
    import dagster as dg
    from refresh_assets.alerts.executor import in_process_with_heartbeat

    @dg.op
    def sleep():
        time.sleep(3600)

    @dg.job(executor_def=in_process_with_heartbeat)
    def endless():
        sleep()

    @dg.op
    def divide():
        raise ZeroDivisionError("no remainder")

    @dg.job(executor_def=in_process_with_heartbeat)
    def flaky():
        divide()

    @dg.sensor(job=endless, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
    def odd_feed(context):
        raise ValueError("the feed is not JSON")

    @dg.sensor(job=endless, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
    def slow_feed(context):
        time.sleep(55)

    defs = dg.Definitions(jobs=[endless, flaky], sensors=[odd_feed, slow_feed])
"""
WORKSPACE = """
load_from:
  - python_module: {module_name: refresh_assets.definitions, location_name: refresh_assets}
  - python_file: {relative_path: elsewhere.py, location_name: elsewhere}
"""
QUICK = """
run_retries: {enabled: true}
run_coordinator: {module: dagster, class: QueuedRunCoordinator, config: {dequeue_interval_seconds: 1}}
"""
SHORTENED = {
    "REFRESH_ALERT_INTERVAL": "1",
    "REFRESH_HEARTBEAT": "0.5",
    "REFRESH_STUCK_AFTER": "30",
    "REFRESH_HTTP_TIMEOUT": "3",
    "REFRESH_REQUEST_INTERVAL": "1",
    "REFRESH_REQUEST_RETRY": "1",
    "REFRESH_REQUEST_ATTEMPTS": "4",
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "DAGSTER_EVENT_LOG_CONSUMER_DAEMON_INTERVAL_SECONDS": "1",
}


@dataclass
class NightWatch:
    """The installation; `mails` is all that arrived, from every mail server that ran at the port."""

    shop: Shop
    env: dict[str, str]
    home: Path
    port: int
    mails: list[Caught] = field(default_factory=list)
    instance: dg.DagsterInstance = field(init=False)
    stuck: str = ""
    """A run that waits in the queue for ever."""
    hanging: str = ""
    """A run that never ends, and may take three seconds."""
    doomed: str = ""
    """A run that never ends, whose process is to be killed."""
    orphan: str = ""
    """A run that never ends, whose process and code server are to be killed."""
    _daemon: subprocess.Popen[bytes] | None = None
    _mail: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    # Processes

    def start(self) -> None:
        """Start the daemon with its code servers."""
        command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(self.home / "workspace.yaml")]
        with (self.home / "daemon.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.home,
                env=self.env,
            )

    def kill(self) -> None:
        """Kill the daemon and everything that it started, as a host does that goes down."""
        if self._daemon is not None:
            os.killpg(self._daemon.pid, signal.SIGKILL)
            self._daemon.wait(30)
            self._daemon = None

    def serve_mail(self) -> None:
        server = self._mail.enter_context(catching(port=self.port))
        server.mails = self.mails

    def stop_mail(self) -> None:
        self._mail.close()

    # Runs

    def enqueue(self, location: str, job: str, **fields: Any) -> str:
        """Put a run into the queue; the daemon starts it in a process of its own."""
        definition = self._jobs()[job]
        run = self.instance.create_run_for_job(definition, remote_job_origin=job_origin(location, job), **fields)
        self.instance.report_dagster_event(DagsterEvent.job_enqueue(run), run.run_id)
        return run.run_id

    def refresh(self, *tables: str, **env: str) -> str:
        """Refresh tables with `refresh-assets run`; return what it prints."""
        options = [option for table in tables for option in ("--table", table)]
        _code, out, err = self.shop.run("run", *options, **{**self.env, **env})
        assert out.count(" refresh: ") == len(tables), (out, err)
        return out

    def failed(self, run_id: str) -> None:
        """Return when a run has failed, however long it waited for its turn."""
        failed = f"SELECT run_id FROM dagster.runs WHERE run_id = '{run_id}' AND status = 'FAILURE'"
        self.wait(lambda: self.shop.rows(failed), 240)

    def pid_of(self, run_id: str) -> int:
        """Return the process that executes a run, as soon as there is one."""
        query = f"SELECT pid FROM refresh_alerts.run_heartbeat WHERE run_id = '{run_id}' AND pid IS NOT NULL"
        self.wait(lambda: self.shop.rows("SELECT to_regclass('refresh_alerts.run_heartbeat')") != [(None,)])
        return int(self.wait(lambda: self.shop.rows(query), 240)[0][0])

    # Mail

    def mail(self, subject: str, seconds: float, about: str = "") -> Caught:
        """Return the one mail with a text in its subject and one in its body, which is to arrive within so long."""
        self.wait(lambda: self._with(subject, about), seconds)
        (caught,) = self._with(subject, about)
        return caught

    def quiet(self, looks: int = 2) -> None:
        """Return after so many more looks of the sensor."""
        query = "SELECT count(*) FROM dagster.job_ticks WHERE job_origin_id IS NOT NULL AND tick_body LIKE '% owed%'"
        wanted = self.shop.rows(query)[0][0] + looks
        self.wait(lambda: self.shop.rows(query)[0][0] >= wanted)

    def wait(self, condition: Callable[[], Any], seconds: float = 90) -> Any:
        def look() -> Any:
            assert self._daemon is None or self._daemon.poll() is None, self._situation()
            return condition()

        return wait_until(look, seconds, self._situation)

    def _with(self, subject: str, about: str) -> list[Caught]:
        return [x for x in self.mails if subject in str(x.mail["Subject"]) and about in x.text()]

    def _situation(self) -> str:
        log = (self.home / "daemon.log").read_text(errors="replace")
        return "\n".join([*(str(x.mail["Subject"]) for x in self.mails), log[-8000:]])

    def _jobs(self) -> dict[str, dg.JobDefinition]:
        space: dict[str, Any] = {}
        exec((self.home / "elsewhere.py").read_text(), space)  # noqa: S102 - the file that the daemon loads
        theirs = {name: space["defs"].resolve_job_def(name) for name in ("endless", "flaky")}
        return {"weekly_refresh": build_defs().resolve_job_def("weekly_refresh"), **theirs}


@pytest.fixture(scope="module")
def night(postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NightWatch]:
    folder = tmp_path_factory.mktemp("night")
    with new_database(postgres_server) as database, pytest.MonkeyPatch.context() as patch:
        files = folder / "published files"
        home = prepare_home(folder / "home")
        _shorten(home)
        env = {
            **database,
            "LEARN_BASE": files.as_uri(),
            "REFRESH_HOME": str(folder / "home"),
            "DAGSTER_HOME": str(home),
            "PATH": os.environ["PATH"],
            **SHORTENED,
        }
        port = free_port()
        env |= mail_settings(Mailserver(port))
        for name, value in env.items():
            patch.setenv(name, value)
        with connect(read_postgres(env), "test admin") as admin, dg.DagsterInstance.get() as instance:
            shop = Shop(files, env, admin)
            shop.publish(dataset_rows(40))
            shop.publish_file("dataset_rights.csv", csv_text(rights_rows(5), RIGHTS_HEADER), 5)
            watch = NightWatch(shop, env, home, port)
            watch.instance = instance
            watch.serve_mail()
            try:
                watch.start()
                watch.stuck = watch.enqueue("elsewhere", "endless", tags={"never": "now"})
                watch.hanging = watch.enqueue("elsewhere", "endless", tags={"dagster/max_runtime": "3"})
                watch.enqueue("elsewhere", "flaky", tags={"dagster/max_retries": "1"})
                watch.doomed, watch.orphan = (watch.enqueue("elsewhere", "endless") for _run in range(2))
                watch.refresh("datasets", "dataset_rights")
                for run_id in (watch.doomed, watch.orphan):
                    watch.pid_of(run_id)
                yield watch
            finally:
                watch.kill()
                watch.stop_mail()


def _shorten(home: Path) -> None:
    """Let the daemon look more often, and let runs with a certain tag wait for ever."""
    configuration = (home / "dagster.yaml").read_text()
    for before, after in (
        ("poll_interval_seconds: 30", "poll_interval_seconds: 2"),
        (
            "max_concurrent_runs: 4",
            "max_concurrent_runs: 10\n    tag_concurrency_limits: [{key: never, limit: 0}]",
        ),
    ):
        assert before in configuration
        configuration = configuration.replace(before, after)
    (home / "dagster.yaml").write_text(configuration + QUICK)
    (home / "workspace.yaml").write_text(WORKSPACE)
    (home / "elsewhere.py").write_text(textwrap.dedent(ELSEWHERE))


def kill_process(pid: int) -> None:
    psutil.Process(pid).kill()

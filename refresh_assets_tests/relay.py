"""Several `refresh-assets daemon` processes on one database, each as on a host of its own, with bounds as they are."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from refresh_assets.instance import prepare_home
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets_tests.waiting import wait_until

# A code location with a job that takes as long as the setting says, once a minute.
MINUTELY = """
    import os, time
    import dagster as dg

    @dg.op
    def work():
        time.sleep(float(os.environ.get("WORK_SECONDS", "0")))

    @dg.job(executor_def=dg.in_process_executor)
    def slot():
        work()

    @dg.schedule(job=slot, cron_schedule="* * * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
    def every_minute(context):
        return dg.RunRequest()

    @dg.sensor(job=slot, minimum_interval_seconds=1, default_status=dg.DefaultSensorStatus.RUNNING)
    def asked(context):
        if os.path.exists(os.environ["ASK_FILE"]):
            with open(os.environ["ASK_FILE"]) as file:
                return dg.RunRequest(run_key=file.read())
        return dg.SkipReason("nothing is asked")

    defs = dg.Definitions(jobs=[slot], schedules=[every_minute], sensors=[asked])
"""
WORKSPACE = """
load_from:
  - python_file: {relative_path: minutely.py, location_name: minutely}
"""
# The command, with some of its bounds shortened, and with another clock.
COMMAND = """
import json, pathlib, sys, time
clock, ahead = time.time, float(sys.argv[3])
time.time = lambda: clock() + ahead
from refresh_assets.commands.daemon import serve
from refresh_assets.daemon.timing import Timing
serve([pathlib.Path(sys.argv[1])], Timing(**json.loads(sys.argv[2])))
"""
SLOTS = "SELECT value, count(*) FROM dagster.run_tags WHERE key = '.dagster/scheduled_execution_time' GROUP BY 1"
LEADER = """
    SELECT pid FROM refresh_daemon.participant AS known
    WHERE state = 'leader' AND EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND objsubid = 2 AND granted AND pid = lease_pid
    )
"""


@dataclass
class Runner:
    """One daemon with a home of its own, and what it has printed."""

    process: subprocess.Popen[str]
    printed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        return "".join(self.printed)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, seconds: float = 60) -> int:
        status = self.process.wait(seconds)
        # Its code server may live on, and with it the pipe.
        self._reader.join(0.5)
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)


@dataclass
class Relay:
    """The daemons of one database; `admin` is a connection to it."""

    folder: Path
    env: dict[str, str]
    admin: psycopg.Connection[Any]
    runners: list[Runner] = field(default_factory=list)

    def start(
        self,
        host: str,
        *,
        shortened: dict[str, float] | None = None,
        within: Sequence[str] = (),
        ahead: float = 0,
        env: Mapping[str, str] | None = None,
    ) -> Runner:
        """Start a daemon as on a host of that name.

        `within` is a command that runs it, `ahead` its clock's error in seconds, `env` are further settings.
        """
        home = self.folder / host
        workspace = self.folder / "workspace.yaml"
        command = [sys.executable, "-m", "refresh_assets.cli", "daemon", "-w", str(workspace)]
        if shortened or ahead:
            command = [sys.executable, "-c", COMMAND, str(workspace), json.dumps(shortened or {}), str(ahead)]
        process = subprocess.Popen(
            [*within, *command],
            env={**self.env, "REFRESH_HOME": str(home), "DAGSTER_HOME": str(prepare_home(home)), **(env or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        runner = Runner(process)
        self.runners.append(runner)
        return runner

    def reconnect(self) -> None:
        """Connect anew, after the server was away."""
        self.admin.close()
        self.admin = connect(read_postgres(self.env), "test admin")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.admin.execute(query).fetchall()

    def leader(self) -> int | None:
        """Return the process that leads by what the database says."""
        if self.rows("SELECT to_regclass('refresh_daemon.participant')") == [(None,)]:
            return None
        found = self.rows(LEADER)
        return found[0][0] if found else None

    def leads(self, runner: Runner, seconds: float = 60) -> float:
        """Wait until a daemon leads; return the seconds that this took."""
        began = time.monotonic()
        self.wait(lambda: self.leader() == runner.pid, seconds)
        return time.monotonic() - began

    def stands_by(self, runner: Runner) -> None:
        self.wait(lambda: "standing by" in runner.text)

    def slots(self) -> dict[str, int]:
        """Return how many runs each slot has."""
        return dict(self.rows(SLOTS)) if self.rows("SELECT to_regclass('dagster.run_tags')") != [(None,)] else {}

    def wait(self, condition: Callable[[], Any], seconds: float = 60) -> Any:
        return wait_until(condition, seconds, self.situation)

    def situation(self) -> str:
        return "\n".join(f"--- {runner.pid} {runner.process.poll()}\n{runner.text[-4000:]}" for runner in self.runners)

    def stop(self) -> None:
        """Kill all that was started, code servers and runs as well."""
        for runner in self.runners:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(runner.pid, signal.SIGKILL)
            runner.process.wait(30)


@contextlib.contextmanager
def relay_on(database: dict[str, str], folder: Path) -> Iterator[Relay]:
    """Prepare a place for daemons on a database."""
    (folder / "minutely.py").write_text(textwrap.dedent(MINUTELY))
    (folder / "workspace.yaml").write_text(WORKSPACE)
    env = {
        **database,
        "ASK_FILE": str(folder / "ask"),
        "LEARN_BASE": folder.as_uri(),
        "PATH": os.environ["PATH"],
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "PYTHONUNBUFFERED": "1",
    }
    relay = Relay(folder, env, connect(read_postgres(env), "test admin"))
    try:
        yield relay
    finally:
        relay.stop()
        relay.admin.close()


@pytest.fixture
def relay(database: dict[str, str], tmp_path: Path) -> Iterator[Relay]:
    with relay_on(database, tmp_path) as relay:
        yield relay

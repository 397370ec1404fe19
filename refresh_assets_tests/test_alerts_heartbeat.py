"""A run proves that it is alive, and one whose process is gone is ended and told."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import psycopg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from refresh_assets.alerts.collect_dead import dead_runs
from refresh_assets.alerts.executor import in_process_with_heartbeat
from refresh_assets.alerts.heartbeat import Heartbeat, host_name
from refresh_assets.published.schedules import JOB
from refresh_assets_tests.test_ping import watching
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import Watchtower

pytestmark = pytest.mark.slow

QUICK = timedelta(seconds=0.1)
BEATS = "SELECT run_id, host, pid FROM refresh_alerts.run_heartbeat"


@contextlib.contextmanager
def beating(run_id: str) -> Iterator[list[str]]:
    warnings: list[str] = []
    with Heartbeat(run_id, QUICK, warnings.append):
        yield warnings


def started(tower: Watchtower) -> dg.DagsterRun:
    """Record a run of ours that has started, as its process does."""
    run = tower.instance.create_run_for_job(tower.repository.get_job(JOB))
    tower.instance.report_engine_event("started", run)
    tower.shop.admin.execute("UPDATE dagster.runs SET status = 'STARTED' WHERE run_id = %s", [run.run_id])
    return run


def state(tower: Watchtower, run: dg.DagsterRun) -> str:
    found = tower.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status.value


def test_a_heartbeat_is_a_row_that_is_renewed_and_removed_at_the_end(tower: Watchtower) -> None:
    with beating("a run"):
        wait_until(lambda: tower.sql("SELECT to_regclass('refresh_alerts.run_heartbeat') IS NOT NULL") == [(True,)])
        wait_until(lambda: tower.sql(BEATS))
        assert tower.sql(BEATS) == [("a run", host_name(), os.getpid())]
        (first,) = tower.sql("SELECT beat_at FROM refresh_alerts.run_heartbeat")
        wait_until(lambda: tower.sql("SELECT beat_at FROM refresh_alerts.run_heartbeat") > [first])
    assert tower.sql(BEATS) == []


def test_a_heartbeat_goes_on_after_its_connection_was_cut(tower: Watchtower) -> None:
    with beating("a run") as warnings:
        wait_until(lambda: tower.sql("SELECT to_regclass('refresh_alerts.run_heartbeat') IS NOT NULL") == [(True,)])
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'refresh-assets run a run'"
        )
        wait_until(lambda: tower.shop.rows(cut))
        wait_until(lambda: warnings)
        tower.sql("DELETE FROM refresh_alerts.run_heartbeat")
        wait_until(lambda: tower.sql(BEATS))
    assert len(warnings) == 1
    assert warnings[0].startswith("the heartbeat of this run could not be written: ")


def test_a_heartbeat_that_cannot_be_written_is_told_without_a_password_and_kills_nothing(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    with beating("a run") as warnings:
        wait_until(lambda: warnings)
    assert "no connection to the database" in warnings[0]
    assert tower.shop.env["PGPASSWORD"] not in warnings[0]


def test_every_run_of_ours_has_a_heartbeat_while_it_runs(tower: Watchtower) -> None:
    seen: list[object] = []

    def beats() -> list[object]:
        # The table is made by the first heartbeat.
        if tower.sql("SELECT to_regclass('refresh_alerts.run_heartbeat') IS NOT NULL") == [(True,)]:
            seen.extend(tower.sql(BEATS))
        return seen

    @dg.op
    def look() -> None:
        wait_until(beats)

    run_id = execute(tower, look)
    assert seen == [(run_id, host_name(), os.getpid())]
    assert tower.sql(BEATS) == []


def execute(tower: Watchtower, op: dg.OpDefinition, **tags: str) -> str:
    """Run an op in this process under our executor, from the run's creation to its end."""

    @dg.job(executor_def=in_process_with_heartbeat)
    def one() -> None:
        op()

    run = tower.instance.create_run_for_job(one, tags=tags)
    execute_run(InMemoryJob(one), run, tower.instance)
    return run.run_id


# Dead runs


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_HEARTBEAT", "0.1")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", ["STARTED", "CANCELING"])
def test_a_run_whose_process_is_gone_is_ended_as_failed_and_told_in_the_same_look(
    tower: Watchtower, status: str
) -> None:
    run = started(tower)
    tower.shop.admin.execute("UPDATE dagster.runs SET status = %s WHERE run_id = %s", [status, run.run_id])
    tower.look()
    tower.sql("UPDATE refresh_alerts.run_heartbeat SET host = 'db-3', pid = 4711, beat_at = '2026-03-02 04:17+00'")
    wait_until(lambda: tower.told() or state(tower, run) == "FAILURE")
    (caught,) = tower.mailserver.mails
    subject = str(caught.mail["Subject"])
    assert subject.startswith("[refresh] weekly_refresh failed: The process of this run is gone: pid 4711 on host db-3")
    assert "last heartbeat at 2026-03-02 04:17 UTC" in caught.text()
    assert tower.told() == []


@pytest.mark.usefixtures("quick")
def test_a_run_that_never_wrote_a_heartbeat_is_given_its_time_and_ended(tower: Watchtower) -> None:
    run = started(tower)
    tower.look([dead_runs])
    assert state(tower, run) == "STARTED"
    wait_until(lambda: tower.look([dead_runs]) and state(tower, run) == "FAILURE")
    assert "it never wrote a heartbeat" in tower.subjects()[0]


def test_a_run_that_is_silent_for_the_first_time_is_looked_at_twice(tower: Watchtower) -> None:
    run = started(tower)
    tower.look([dead_runs])
    tower.sql("UPDATE refresh_alerts.run_heartbeat SET beat_at = clock_timestamp() - interval '2 minutes'")
    tower.look([dead_runs])
    assert state(tower, run) == "STARTED"
    with beating(run.run_id):
        wait_until(
            lambda: tower.sql("SELECT suspected_at, pid IS NULL FROM refresh_alerts.run_heartbeat") == [(None, False)]
        )
    assert tower.sql(BEATS) == []


@pytest.mark.usefixtures("quick")
def test_a_run_of_another_executor_is_left_alone(tower: Watchtower) -> None:
    @dg.op
    def nothing() -> None: ...

    @dg.job(executor_def=dg.in_process_executor)
    def elsewhere() -> None:
        nothing()

    run = tower.instance.create_run_for_job(elsewhere)
    tower.shop.admin.execute("UPDATE dagster.runs SET status = 'STARTED' WHERE run_id = %s", [run.run_id])
    tower.look()
    assert tower.sql(BEATS) == []
    assert state(tower, run) == "STARTED"


HOLDS_THE_LOCK = """
import ctypes, sys
from datetime import timedelta
from refresh_assets.alerts.heartbeat import Heartbeat
with Heartbeat(sys.argv[1], timedelta(seconds=0.1), print):
    print("beating", flush=True)
    sys.stdin.readline()
    # A call that keeps the interpreter's lock.
    ctypes.PyDLL(None).usleep(3_000_000)
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.usefixtures("quick")
def test_a_run_that_holds_pythons_lock_for_far_longer_than_a_heartbeat_may_be_late_is_not_ended(
    tower: Watchtower,
) -> None:
    run = started(tower)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, run.run_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # From the first look on it has less than a second, which a busy machine takes to import it.
        assert process.stdout.readline() == "beating\n"
        wait_until(lambda: tower.look([dead_runs]) and tower.sql(f"{BEATS} WHERE pid IS NOT NULL"))
        process.stdin.write("go\n")
        process.stdin.flush()
        silence = timedelta()
        done = threading.Event()
        printed = process.stdout

        def read() -> None:
            printed.readline()
            done.set()

        threading.Thread(target=read).start()
        while not done.is_set():
            tower.look([dead_runs])
            ((late,),) = tower.sql("SELECT clock_timestamp() - beat_at FROM refresh_alerts.run_heartbeat")
            silence = max(silence, late)
            assert state(tower, run) == "STARTED"
        # Six heartbeats late, and two more of being suspected, would have been its end.
        assert silence > timedelta(seconds=1.5)
        process.kill()
    wait_until(lambda: tower.look([dead_runs]) and state(tower, run) == "FAILURE")


@pytest.mark.usefixtures("quick")
def test_a_run_that_waits_for_one_long_statement_is_not_ended(tower: Watchtower) -> None:
    @dg.op
    def wait() -> None:
        with psycopg.connect(tower.shop.admin.info.dsn, password=tower.shop.env["PGPASSWORD"]) as conn:
            conn.execute("SELECT pg_sleep(2)")

    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            tower.look([dead_runs])

    looks = threading.Thread(target=look)
    looks.start()
    run_id = execute(tower, wait)
    ended.set()
    looks.join(60)
    record = tower.instance.get_run_by_id(run_id)
    assert record is not None
    assert record.status == dg.DagsterRunStatus.SUCCESS
    assert "process of this run is gone" not in str([entry.user_message for entry in tower.instance.all_logs(run_id)])


# The outside watcher


@dg.op
def succeed() -> None: ...


@dg.op
def fail() -> None:
    raise ValueError("no rows today")


def test_a_scheduled_run_tells_the_watcher_of_its_start_and_its_end(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watching(200) as watcher:
        monkeypatch.setenv("ALERT_PING_URL", f"{watcher.base}/ping/7f3a")
        execute(tower, succeed, **{"dagster/schedule_name": "weekly"})
        assert [(path, body) for _method, path, body in watcher.seen] == [("/ping/7f3a/start", ""), ("/ping/7f3a", "")]
        execute(tower, fail, **{"dagster/schedule_name": "weekly"})
        assert [(path, body) for _method, path, body in watcher.seen[2:]] == [
            ("/ping/7f3a/start", ""),
            ("/ping/7f3a/fail", "fail: no rows today"),
        ]
        execute(tower, succeed)
        assert len(watcher.seen) == 4


def test_a_watcher_that_is_away_is_a_warning_of_the_run(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALERT_PING_URL", "http://127.0.0.1:1/secret")
    run_id = execute(tower, succeed, **{"dagster/schedule_name": "weekly"})
    run = tower.instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.SUCCESS
    told = [entry.user_message for entry in tower.instance.all_logs(run_id) if "ALERT_PING_URL" in entry.user_message]
    assert len(told) == 2
    assert "secret" not in "".join(told)


def test_the_sensor_tells_the_watcher_once_a_minute_that_it_looks_and_what_is_wrong(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watching(200) as watcher:
        monkeypatch.setenv("ALERT_PING_URL", f"{watcher.base}/ping/7f3a")
        for _look in range(3):
            tower.look()
        assert [path for _method, path, _body in watcher.seen] == ["/ping/7f3a"]
        tower.sql("UPDATE refresh_alerts.noted SET instant = instant - interval '1 minute' WHERE name = 'ping'")
        monkeypatch.setenv("SMTP_PORT", "1")
        tower.fail(tower.create_run())
        tower.look()
        _method, path, body = watcher.seen[-1]
        assert path == "/ping/7f3a/fail"
        assert body.startswith("0 mails sent, 1 owed: ")

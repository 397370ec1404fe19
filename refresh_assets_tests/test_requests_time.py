"""Whose clock decides, and what goes on when an application has used up its connections."""

from __future__ import annotations

import ast
import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path

import psycopg
import pytest
from typing_extensions import Self

import refresh_assets.requests
from refresh_assets.alerts.pulse import Pulse
from refresh_assets.requests import client
from refresh_assets.requests.claim import claim
from refresh_assets.requests.heartbeat import RequestBeat
from refresh_assets.requests.settle import SESSION, fail, stale
from refresh_assets_tests.requests_fixtures import NOON, TASKS, Counter, application
from refresh_assets_tests.waiting import wait_until

WING = Path(str(refresh_assets.requests.__file__)).parent
READS_A_CLOCK = {"now", "utcnow", "today", "time", "time_ns", "localtime", "gmtime"}


def test_no_clock_but_the_databases_is_read() -> None:
    calls = [
        (path.name, node.func.attr)
        for path in WING.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS_A_CLOCK
    ]
    assert calls == []


def test_a_host_whose_clock_is_an_hour_wrong_claims_and_retries_at_the_right_instants(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fast(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=1)

    true = time.time
    monkeypatch.setattr("datetime.datetime", Fast)
    monkeypatch.setattr(time, "time", lambda: true() + 3600)
    client.schedule_if_not_exists(counter.conn, "now")
    client.schedule_if_not_exists(counter.conn, "in half an hour", server_time(counter) + timedelta(minutes=30))
    (found,) = claim(counter.own)
    assert found.instance == "now"
    again = fail(counter.own, found.token, "no")
    assert again is not None
    assert timedelta(seconds=50) < again - server_time(counter) < timedelta(seconds=70)


def server_time(counter: Counter) -> datetime:
    now: datetime = counter.sql("SELECT clock_timestamp()")[0][0]
    return now


@pytest.mark.parametrize("zone", ["Asia/Seoul", "Europe/Paris"])
def test_the_zone_of_the_role_changes_neither_claim_nor_delay(counter: Counter, zone: str) -> None:
    counter.sql(f"SET TIME ZONE '{zone}'")
    counter.ask("tonight")
    assert counter.claim(NOON - timedelta(seconds=1)) == []
    again = fail(counter.own, counter.start("tonight").token, "no", now=NOON)
    assert again == NOON + timedelta(minutes=1)
    assert again.utcoffset() == timedelta()
    assert counter.get("tonight").when == again


def test_the_heartbeat_goes_on_when_the_application_has_used_up_its_connections(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    counter.sql("CREATE ROLE worker LOGIN PASSWORD 'worker' CONNECTION LIMIT 3")
    counter.sql("GRANT ALL ON SCHEMA refresh_requests TO worker")
    counter.sql("GRANT ALL ON ALL TABLES IN SCHEMA refresh_requests TO worker")
    monkeypatch.setenv("PGUSER", "worker")
    monkeypatch.setenv("PGPASSWORD", "worker")
    warnings: list[str] = []
    try:
        with Pulse(RequestBeat(found.token), timedelta(seconds=0.05), warnings.append):
            wait_until(lambda: beat_of(counter) != [(NOON,)])
            with used_up({**counter.env, "PGUSER": "worker", "PGPASSWORD": "worker"}):
                last = beat_of(counter)
                wait_until(lambda: beat_of(counter) > last)
    finally:
        counter.sql("DROP OWNED BY worker; DROP ROLE worker")
    assert warnings == []


@contextlib.contextmanager
def used_up(env: dict[str, str]) -> Iterator[None]:
    """Hold every connection that the role may still have, each in a transaction."""
    with contextlib.ExitStack() as pool:
        try:
            while True:
                pool.enter_context(application(env, autocommit=False)).execute("SELECT 1")
        except psycopg.OperationalError:
            yield


def beat_of(counter: Counter) -> list[tuple[object, ...]]:
    return counter.sql(f"SELECT last_heartbeat FROM {TASKS}")


def test_a_process_that_lives_and_cannot_write_is_not_taken_for_dead(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    late = NOON + timedelta(hours=1)
    with application(counter.env, application_name=SESSION + found.token):
        for n in range(3):
            assert stale(counter.own, timedelta(minutes=1), timedelta(), now=late + n * timedelta(hours=1)) == []
    wait_until(
        lambda: not counter.sql("SELECT pid FROM pg_stat_activity WHERE application_name = %s", SESSION + found.token)
    )
    assert [gone.token for gone in stale(counter.own, timedelta(minutes=1), timedelta(), now=late)] == [found.token]


def test_a_process_that_is_frozen_loses_its_connection_and_is_taken_for_dead(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFRESH_HEARTBEAT", "0.5")
    counter.ask("tonight")
    found = counter.start("tonight")
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
    beat = RequestBeat(found.token)
    with beat.open() as conn:
        beat.beat(conn)
        assert counter.sql(sessions, SESSION + found.token)
        wait_until(lambda: not counter.sql(sessions, SESSION + found.token))
        late = datetime.now(timezone.utc) + timedelta(hours=1)
        assert [gone.token for gone in stale(counter.own, timedelta(minutes=1), timedelta(), now=late)] == [found.token]


def test_a_living_process_that_lost_its_connection_beats_on_with_another(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    told: list[str] = []
    with Pulse(RequestBeat(found.token), timedelta(seconds=0.05), told.append):
        wait_until(lambda: counter.sql(ended, SESSION + found.token))
        last = beat_of(counter)
        wait_until(lambda: beat_of(counter) > last)


def test_a_heartbeat_of_a_request_that_was_taken_away_warns_once(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    counter.sql(f"DELETE FROM {TASKS}")
    warnings: list[str] = []
    with Pulse(RequestBeat(found.token), timedelta(seconds=0.01), warnings.append):
        wait_until(lambda: warnings)
        threading.Event().wait(0.2)
    assert len(warnings) == 1
    assert "the request was given to another run, moved or removed" in warnings[0]

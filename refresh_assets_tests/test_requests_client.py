"""Asking for a refresh, moving and cancelling it: from Python, and from whatever else writes the row."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg.rows import dict_row

from refresh_assets.errors import RefreshError
from refresh_assets.requests import client
from refresh_assets.requests.claim import claim
from refresh_assets.requests.client import RequestRunningError, UnknownRequestError
from refresh_assets.requests.settle import park
from refresh_assets.requests.storage import create_tables
from refresh_assets.requests.task import BadRequestError, decode
from refresh_assets_tests.requests_fixtures import NOON, TASKS, Counter, application

LATER = NOON + timedelta(hours=3)
# The columns of db-scheduler's own script for Postgres with their types, and the two that stand beside them here.
LAYOUT = {
    "task_name": "text",
    "task_instance": "text",
    "task_data": "bytea",
    "execution_time": "timestamp with time zone",
    "picked": "boolean",
    "picked_by": "text",
    "last_success": "timestamp with time zone",
    "last_failure": "timestamp with time zone",
    "consecutive_failures": "integer",
    "last_heartbeat": "timestamp with time zone",
    "version": "bigint",
    "priority": "smallint",
    "created_at": "timestamp with time zone",
    "last_updated_at": "timestamp with time zone",
}


def test_the_table_has_the_layout_of_db_scheduler(counter: Counter) -> None:
    found = counter.sql(
        "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = 'scheduled_tasks'"
    )
    assert dict(found) == LAYOUT
    key = counter.sql(
        "SELECT attname::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) "
        "WHERE indisprimary AND indrelid = 'refresh_requests.scheduled_tasks'::regclass ORDER BY attnum"
    )
    assert key == [("task_name",), ("task_instance",)]


def test_a_request_is_what_was_asked(counter: Counter) -> None:
    assert client.schedule_if_not_exists(counter.conn, "tonight", NOON, {"tables": ["datasets"]}, priority=7)
    found = counter.get("tonight")
    assert (found.state, found.when, found.data, found.priority) == ("waiting", NOON, {"tables": ["datasets"]}, 7)


def test_a_second_request_of_a_name_is_not_taken_and_changes_nothing(counter: Counter) -> None:
    counter.ask("tonight", data={"tables": ["datasets"]})
    assert not client.schedule_if_not_exists(counter.conn, "tonight", LATER)
    assert counter.get("tonight").when == NOON
    assert counter.get("tonight").data == {"tables": ["datasets"]}


def test_a_request_can_take_the_place_of_one_that_waits(counter: Counter) -> None:
    counter.ask("tonight", data={"tables": ["datasets"]})
    client.schedule_or_reschedule(counter.conn, "tonight", LATER, {"tables": ["dataset_rights"]})
    found = counter.get("tonight")
    assert (found.when, found.data) == (LATER, {"tables": ["dataset_rights"]})


def test_a_moved_request_keeps_what_it_asks_for_unless_other_data_are_given(counter: Counter) -> None:
    counter.ask("tonight", data={"tables": ["datasets"]})
    client.reschedule(counter.conn, "tonight", LATER)
    assert counter.get("tonight").data == {"tables": ["datasets"]}
    client.reschedule(counter.conn, "tonight", LATER, None)
    assert (counter.get("tonight").when, counter.get("tonight").data) == (LATER, {})


def test_without_an_instant_it_is_now_by_the_clock_of_the_database(counter: Counter) -> None:
    client.schedule_if_not_exists(counter.conn, "now")
    assert [found.instance for found in claim(counter.own)] == ["now"]


def test_asking_is_part_of_the_callers_transaction(counter: Counter) -> None:
    with application(counter.env, autocommit=False) as caller:
        client.schedule_if_not_exists(caller, "rolled back", NOON)
        caller.rollback()
        client.schedule_if_not_exists(caller, "committed", NOON)
        assert counter.names() == []
        caller.commit()
    assert counter.names() == ["committed"]


def test_a_connection_with_rows_of_another_shape_and_an_open_transaction_will_do(counter: Counter) -> None:
    with application(counter.env, row_factory=dict_row) as caller, caller.transaction():
        client.schedule_if_not_exists(caller, "tonight", NOON)
        assert [found.instance for found in client.list(caller)] == ["tonight"]


def test_a_cancelled_request_is_gone(counter: Counter) -> None:
    counter.ask("tonight")
    client.cancel(counter.conn, "tonight")
    assert client.get(counter.conn, "tonight") is None
    assert counter.names() == []


def change(how: str, conn: psycopg.Connection[Any], name: str) -> None:
    changes = {
        "move": lambda: client.reschedule(conn, name, LATER),
        "cancel": lambda: client.cancel(conn, name),
        "replace": lambda: client.schedule_or_reschedule(conn, name, LATER),
    }
    changes[how]()


@pytest.mark.parametrize("how", ["move", "cancel", "replace"])
def test_a_running_request_can_be_neither_moved_nor_cancelled_and_says_so(counter: Counter, how: str) -> None:
    counter.ask("tonight")
    counter.start("tonight")
    with pytest.raises(RequestRunningError, match="'tonight' is being run"):
        change(how, counter.conn, "tonight")
    assert counter.get("tonight").state == "running"
    assert counter.get("tonight").when == NOON


@pytest.mark.parametrize("how", ["move", "cancel"])
def test_what_is_unknown_can_be_neither_moved_nor_cancelled(counter: Counter, how: str) -> None:
    with pytest.raises(UnknownRequestError, match="'tonight'"):
        change(how, counter.conn, "tonight")


def failed(counter: Counter, name: str = "tonight") -> None:
    counter.ask(name, data={"tables": ["datasets"]}, priority=3)
    park(counter.own, counter.start(name).token, "the file is broken")


def test_a_request_that_failed_for_good_stays_on_the_list_with_its_error(counter: Counter) -> None:
    failed(counter)
    assert counter.states() == {"tonight": "failed"}
    assert counter.get("tonight").error == "the file is broken"


def test_moving_one_that_failed_asks_it_anew(counter: Counter) -> None:
    failed(counter)
    client.reschedule(counter.conn, "tonight", LATER)
    found = counter.get("tonight")
    assert (found.state, found.when, found.priority, found.failures) == ("waiting", LATER, 3, 0)
    assert found.data == {"tables": ["datasets"]}
    assert counter.states() == {"tonight": "waiting"}


def test_cancelling_one_that_failed_takes_it_off_the_list(counter: Counter) -> None:
    failed(counter)
    client.cancel(counter.conn, "tonight")
    assert counter.states() == {}
    assert [found.state for found in client.history(counter.conn, "tonight")] == ["failed"]


def test_the_list_begins_with_those_that_run_then_by_their_instants(counter: Counter) -> None:
    counter.ask("running")
    counter.start("running")
    counter.ask("later", when=LATER)
    counter.ask("sooner", when=NOON)
    assert list(counter.states()) == ["running", "sooner", "later"]


# What is refused


@pytest.mark.parametrize(
    ("name", "told"), [("x" * 101, "101 characters; at most 100"), ("", "not empty"), ("a\nb", "printable")]
)
def test_an_unusable_name_is_refused(counter: Counter, name: str, told: str) -> None:
    with pytest.raises(BadRequestError, match=told):
        client.schedule_if_not_exists(counter.conn, name, NOON)


def test_a_name_of_100_characters_and_data_of_64_kilobytes_are_taken_whole(counter: Counter) -> None:
    name, data = "ä" * 100, {"x": "y" * (65_536 - len('{"x": ""}'))}
    counter.ask(name, data=data)
    assert counter.get(name).data == data


def test_more_than_64_kilobytes_are_refused_and_nothing_is_cut(counter: Counter) -> None:
    with pytest.raises(BadRequestError, match="65537 bytes of JSON; at most 65536"):
        client.schedule_if_not_exists(counter.conn, "tonight", NOON, {"x": "y" * (65_537 - len('{"x": ""}'))})
    assert counter.states() == {}


@pytest.mark.parametrize("data", [{"x": float("nan")}, {"x": object()}, ["datasets"], {"x": "\ud800"}])
def test_what_is_no_json_object_is_refused(counter: Counter, data: Any) -> None:
    with pytest.raises(BadRequestError):
        client.schedule_if_not_exists(counter.conn, "tonight", NOON, data)


@pytest.mark.parametrize("call", [client.schedule_if_not_exists, client.schedule_or_reschedule, client.reschedule])
def test_a_naive_time_is_refused(counter: Counter, call: Any) -> None:
    with pytest.raises(BadRequestError, match="has no time zone"):
        call(counter.conn, "tonight", datetime(2026, 1, 4, 12))  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize("end", [datetime.min, datetime.max, datetime(9999, 6, 1)])  # noqa: DTZ901, DTZ001
@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_a_time_at_an_end_of_the_calendar_is_refused(counter: Counter, end: datetime, hours: int) -> None:
    with pytest.raises(BadRequestError, match="does not lie within the years 2 to 9998"):
        client.schedule_if_not_exists(counter.conn, "tonight", end.replace(tzinfo=timezone(timedelta(hours=hours))))
    assert counter.states() == {}


def test_a_priority_that_the_column_does_not_hold_is_refused(counter: Counter) -> None:
    with pytest.raises(BadRequestError, match="priority 40000"):
        client.schedule_if_not_exists(counter.conn, "tonight", NOON, priority=40_000)


@pytest.mark.parametrize(
    "values",
    [
        "('refresh', repeat('x', 101), NULL, now(), false, 1)",
        "('refresh', '', NULL, now(), false, 1)",
        "('refresh', 'x', convert_to(repeat('x', 65537), 'UTF8'), now(), false, 1)",
        "('refresh', 'x', NULL, 'infinity', false, 1)",
    ],
)
def test_the_database_refuses_it_from_everybody_else(counter: Counter, values: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        counter.sql(f"INSERT INTO {TASKS} {PLAIN} VALUES {values}")


def test_a_table_that_is_not_there_yet_is_told_with_what_makes_it(database: dict[str, str]) -> None:
    with application(database) as conn, pytest.raises(RefreshError, match="refresh-assets request list"):
        client.schedule_if_not_exists(conn, "tonight", NOON)


# Other clients

PLAIN = "(task_name, task_instance, task_data, execution_time, picked, version)"


def test_a_plain_insert_with_the_columns_of_db_scheduler_is_a_request(counter: Counter) -> None:
    counter.sql(
        f"INSERT INTO {TASKS} {PLAIN} VALUES ('refresh', 'from psql', %s, '2026-01-04 13:00+01', false, 1)",
        json.dumps({"tables": ["datasets"]}).encode(),
    )
    (found,) = counter.claim()
    assert (found.instance, found.priority, found.attempt) == ("from psql", None, 1)
    assert decode(found.raw) == {"tables": ["datasets"]}


def test_what_the_client_of_db_scheduler_executes_works(counter: Counter) -> None:
    java = f"INSERT INTO {TASKS} (task_name, task_instance, task_data, execution_time, picked, version, priority) "
    counter.sql(java + "VALUES ('refresh', 'from java', %s, %s, %s, %s, %s)", b'{"tables":[]}', NOON, False, 1, 50)
    moved = counter.sql(
        f"UPDATE {TASKS} SET picked = %s, picked_by = %s, last_heartbeat = %s, last_success = %s, last_failure = %s, "
        "consecutive_failures = %s, execution_time = %s, task_data = %s, version = version + 1 "
        "WHERE task_name = %s AND task_instance = %s AND version = %s RETURNING version",
        *(False, None, None, None, None, 0, LATER, b'{"tables":["datasets"]}', "refresh", "from java", 1),
    )
    assert moved == [(2,)]
    assert counter.names(NOON) == []
    assert counter.names(LATER) == ["from java"]


def test_the_zone_of_a_session_changes_no_instant(counter: Counter) -> None:
    seoul, paris = (application(counter.env, options=f"-c TimeZone={zone}") for zone in ("Asia/Seoul", "Europe/Paris"))
    with seoul, paris:
        client.schedule_if_not_exists(seoul, "seoul", datetime(2026, 1, 4, 21, tzinfo=ZoneInfo("Asia/Seoul")))
        client.schedule_if_not_exists(paris, "paris", datetime(2026, 1, 4, 13, tzinfo=ZoneInfo("Europe/Paris")))
        for conn in (seoul, paris, counter.conn):
            assert {found.when for found in client.list(conn)} == {NOON}
            assert {found.when.tzinfo for found in client.list(conn)} == {timezone.utc}
    assert counter.names(NOON - timedelta(seconds=1)) == []
    assert set(counter.names(NOON)) == {"seoul", "paris"}


def test_a_table_made_by_db_schedulers_script_is_taken_over_with_its_rows(counter: Counter) -> None:
    theirs = [f"{name} {kind}" for name, kind in LAYOUT.items() if name not in ("created_at", "last_updated_at")]
    counter.sql(f"CREATE SCHEMA other; CREATE TABLE other.scheduled_tasks ({', '.join(theirs)})")
    counter.sql("ALTER TABLE other.scheduled_tasks ADD PRIMARY KEY (task_name, task_instance)")
    counter.sql(f"INSERT INTO other.scheduled_tasks {PLAIN} VALUES ('refresh', 'old', NULL, now(), false, 1)")
    create_tables(counter.own, "other")
    create_tables(counter.own, "other")
    assert [found.instance for found in claim(counter.own, schema="other")] == ["old"]


def test_the_client_does_not_import_dagster() -> None:
    code = "import sys, refresh_assets.requests.client; assert not any(m.startswith('dagster') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

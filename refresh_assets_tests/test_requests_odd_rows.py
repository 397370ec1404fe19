"""Rows that no client of ours would write, sessions set otherwise, and tables that somebody else made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from click.testing import CliRunner

from refresh_assets.cli import main
from refresh_assets.requests import client
from refresh_assets.requests.claim import claim, held, plan
from refresh_assets.requests.settle import complete, fail, postpone, release_strays, stale
from refresh_assets.requests.storage import connect_requests, create_tables
from refresh_assets_tests.requests_fixtures import NOON, TASKS, Counter, application
from refresh_assets_tests.test_requests_client import LAYOUT

HOUR = timedelta(hours=1)
SILENT = timedelta(seconds=60)
MOST = 2**63 - 1
INSERT = (
    f"INSERT INTO {TASKS} (task_name, task_instance, execution_time, picked, picked_by, version, consecutive_failures) "
    "VALUES ('refresh', %s, %s, %s, %s, %s, %s)"
)


@pytest.mark.parametrize(("version", "failures"), [(MOST, 0), (MOST - 1, 0), (-MOST, 0), (1, 2**31 - 1), (1, -(2**31))])
def test_a_number_out_of_bounds_keeps_no_request_from_being_claimed_or_ended(
    counter: Counter, version: int, failures: int
) -> None:
    counter.sql(INSERT, "odd", NOON, False, None, version, failures)
    counter.ask("sound")
    assert set(counter.names()) == {"odd", "sound"}
    for (token,) in counter.sql(f"SELECT picked_by FROM {TASKS}"):
        fail(counter.own, token, "the publisher is down", now=NOON)
    for found in counter.claim(NOON + HOUR):
        assert postpone(counter.own, found.token, "locked", now=NOON)
    assert "sound" in counter.names(NOON + HOUR)


def test_a_waiting_row_of_any_version_can_be_moved(counter: Counter) -> None:
    counter.sql(INSERT, "odd", NOON, False, None, MOST, None)
    client.reschedule(counter.conn, "odd", NOON + HOUR)
    client.schedule_or_reschedule(counter.conn, "odd", NOON + 2 * HOUR)
    assert counter.get("odd").when == NOON + 2 * HOUR


@pytest.mark.parametrize("name", ["two\nlines", "tab\tbed", "\x1b[31mred"])
def test_a_name_that_another_program_wrote_can_be_moved_cancelled_and_listed_in_a_line(
    counter: Counter, name: str
) -> None:
    counter.sql(INSERT, name, NOON, False, None, 1, None)
    client.reschedule(counter.conn, name, NOON + HOUR)
    assert counter.get(name).when == NOON + HOUR
    listed = CliRunner().invoke(main, ["request", "list"]).stdout
    assert listed.count("\n") == 1
    assert name not in listed
    client.cancel(counter.conn, name)
    assert counter.states() == {}


@pytest.mark.parametrize("picked_by", [None, "scheduler-on-etl-1", "00000000-0000-0000-0000-000000000000"])
def test_a_row_that_nobody_we_know_has_picked_comes_due_again(counter: Counter, picked_by: str | None) -> None:
    counter.sql(INSERT, "stray", NOON, True, picked_by, 7, None)
    assert counter.names() == []
    assert release_strays(counter.own, SILENT, now=NOON) == 1
    assert counter.names() == ["stray"]


def test_a_row_that_is_kept_alive_or_claimed_is_no_stray(counter: Counter) -> None:
    counter.sql(INSERT, "theirs", NOON, True, "scheduler-on-etl-1", 7, None)
    counter.sql(f"UPDATE {TASKS} SET last_heartbeat = %s", NOON)
    counter.ask("ours")
    counter.start("ours", NOON)
    assert release_strays(counter.own, SILENT, now=NOON + SILENT) == 0
    assert release_strays(counter.own, SILENT, now=NOON + HOUR) == 1
    assert counter.states() == {"ours": "running", "theirs": "waiting"}


@pytest.mark.parametrize("style", ["German, DMY", "SQL, DMY", "Postgres, MDY"])
def test_the_date_style_of_the_database_changes_nothing(counter: Counter, style: str) -> None:
    counter.sql(f"ALTER DATABASE {counter.env['PGDATABASE']} SET DateStyle = '{style}'")
    with connect_requests() as own, application(counter.env) as conn:
        client.schedule_if_not_exists(conn, "tonight", NOON, {"tables": ["datasets"]}, priority=3)
        found = client.get(conn, "tonight")
        assert found is not None
        assert (found.when, found.data, found.priority) == (NOON, {"tables": ["datasets"]}, 3)
        (claimed,) = claim(own, now=NOON)
        again = fail(own, claimed.token, "the publisher is down", now=NOON)
        assert again is not None
        assert again > NOON


def test_a_request_that_was_changed_while_it_ran_is_not_done_with_that_run(counter: Counter) -> None:
    counter.ask("tonight")
    first = counter.start("tonight")
    counter.sql(f"UPDATE {TASKS} SET task_data = %s", b'{"accept_shrink": true}')
    counter.write(first)
    assert not complete(counter.own, first.token)
    assert postpone(counter.own, first.token, "it was changed", now=NOON)
    (second,) = counter.claim(NOON + HOUR)
    assert (second.raw, second.done) == (b'{"accept_shrink": true}', frozenset())


@pytest.mark.parametrize("column", ["version = 9223372036854775807", "consecutive_failures = 2147483647"])
@pytest.mark.parametrize("end", [fail, postpone], ids=["fail", "postpone"])
def test_a_number_that_was_put_out_of_bounds_while_it_ran_keeps_nothing_from_ending(
    counter: Counter, column: str, end: Callable[..., object]
) -> None:
    counter.ask("odd")
    running = counter.start("odd")
    counter.sql(f"UPDATE {TASKS} SET {column}")
    end(counter.own, running.token, "the publisher is down", now=NOON)
    counter.ask("sound")
    assert "sound" in counter.names(NOON + HOUR)


@pytest.mark.parametrize("beat", ["NULL", "'infinity'", "'-infinity'"])
def test_a_heartbeat_that_is_no_moment_is_an_old_one(counter: Counter, beat: str) -> None:
    counter.ask("given up")
    running = counter.start("given up")
    counter.ask("without run")
    counter.claim(NOON)
    counter.sql(f"UPDATE {TASKS} SET last_heartbeat = {beat}")
    assert [found.instance for found in held(counter.own, untouched=SILENT, now=NOON)] == ["without run"]
    for wait in (timedelta(), SILENT):
        found = stale(counter.own, SILENT, timedelta(seconds=1), now=NOON + wait)
    assert [gone.token for gone in found] == [running.token]
    assert len(client.list(counter.conn)) == 2


def test_what_is_held_is_run_for_what_it_asks_for_now(counter: Counter) -> None:
    counter.ask("tonight", data={"tables": ["datasets"]})
    counter.claim(NOON)
    counter.sql(f"UPDATE {TASKS} SET task_data = %s", b'{"tables": ["dataset_rights"]}')
    (again,) = held(counter.own, untouched=SILENT, now=NOON + HOUR)
    assert again.raw == b'{"tables": ["dataset_rights"]}'
    plan(counter.own, again.token, ["dataset_rights"])
    counter.write(again, "a run", part="dataset_rights")
    counter.sql(f"UPDATE {TASKS} SET task_data = %s", b'{"tables": ["datasets"]}')
    assert not complete(counter.own, again.token), "it asks for something else now"
    counter.sql(f"UPDATE {TASKS} SET task_data = %s", b'{"tables": ["dataset_rights"]}')
    assert complete(counter.own, again.token)


def test_a_table_of_claims_without_what_was_asked_for_gets_it(counter: Counter) -> None:
    counter.ask("tonight")
    running = counter.start("tonight")
    counter.sql("ALTER TABLE refresh_requests.request_claims DROP COLUMN task_data")
    create_tables(counter.own, "refresh_requests")
    counter.write(running)
    assert complete(counter.own, running.token)
    counter.ask("next")
    assert counter.names() == ["next"]


def test_a_table_whose_columns_for_instants_lack_their_defaults_is_taken_over(counter: Counter) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in LAYOUT.items())
    counter.sql(f"CREATE SCHEMA other; CREATE TABLE other.scheduled_tasks ({columns})")
    counter.sql("ALTER TABLE other.scheduled_tasks ADD PRIMARY KEY (task_name, task_instance)")
    insert = (
        "INSERT INTO other.scheduled_tasks (task_name, task_instance, execution_time, picked, version) "
        "VALUES ('refresh', %s, %s, false, 1)"
    )
    counter.sql(insert, "old", NOON)
    create_tables(counter.own, "other")
    create_tables(counter.own, "other")
    counter.sql(insert, "new", NOON)
    assert {found.instance for found in claim(counter.own, now=NOON, schema="other")} == {"old", "new"}

"""Whatever goes wrong during a replace: table and state are both old or both new, and nothing is left behind."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace as altered
from typing import Any

import psycopg
import pytest
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect, limit
from refresh_assets.published.table import keep
from refresh_assets.published.table.declaration import RowFilter, Table
from refresh_assets.published.table.replace import ATTEMPTS, replace
from refresh_assets_tests.postgres_fixtures import LOCKS_HELD
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, SHELF, Desk, by_small_chunks
from refresh_assets_tests.waiting import wait_until

NEXT = [("1", "Tides", "new"), ("3", "Marsh", ""), ("4", "Heath", ""), ("5", "Fen", "")]


@contextlib.contextmanager
def session(desk: Desk) -> Iterator[psycopg.Connection[Any]]:
    """Open another session with an open transaction, rolled back at the end."""
    with connect(desk.settings, "test other session") as other:
        other.autocommit = False
        yield other
        other.rollback()


def break_writes(desk: Desk, body: str) -> None:
    """Let a trigger on the table run this PL/pgSQL before each written row."""
    desk.admin.execute(
        sql.SQL("CREATE OR REPLACE FUNCTION etl.broken() RETURNS trigger LANGUAGE plpgsql AS {}").format(
            sql.Literal(f"BEGIN {body}; RETURN NEW; END")
        )
    )
    desk.admin.execute(
        "CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON etl.books FOR EACH ROW EXECUTE FUNCTION etl.broken()"
    )


class KillingCursor(psycopg.Cursor[Any]):
    """Has its own server process ended before the statement with the number `at`."""

    at = 0
    count = 0
    admin: psycopg.Connection[Any]

    def _strike(self) -> None:
        cls = type(self)
        cls.count += 1
        if cls.count == cls.at:
            pid = self.connection.info.backend_pid
            cls.admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        self._strike()
        return super().execute(*args, **kwargs)

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        self._strike()
        return super().copy(*args, **kwargs)


def run_killed_at(desk: Desk, statement: int, content: Sequence[Sequence[str]], table: Table = BOOKS) -> bool:
    """Replace with the connection cut before one statement; tell whether there was such a statement."""
    KillingCursor.at, KillingCursor.count, KillingCursor.admin = statement, 0, desk.admin
    with contextlib.suppress(psycopg.OperationalError), connect(desk.settings, "test killed") as conn:
        conn.cursor_factory = KillingCursor
        replace(conn, desk.load(content, table))
    return KillingCursor.count >= statement


@pytest.mark.slow
def test_a_connection_cut_before_any_statement_leaves_all_as_it_was_and_the_next_run_loads(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    statement = 1
    while run_killed_at(desk, statement, NEXT):
        assert desk.picture() == before, f"something changed when cut before statement {statement}"
        assert desk.value(LOCKS_HELD) == 0
        assert desk.value("SELECT count(*) FROM pg_class WHERE relname LIKE 'refresh_stage%'") == 0
        statement += 1
    assert statement > 15  # the transaction has that many statements at least
    assert [row[0] for row in desk.rows()] == [1, 3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kinds", ["open", "open closed"], ids=["all kept", "some left out"])
def test_a_first_load_cut_before_any_statement_leaves_no_table_behind(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, kinds: str, *, large: bool
) -> None:
    if large:
        by_small_chunks(desk, monkeypatch, 1)
    # Nothing is looked at before it is tried.
    monkeypatch.setattr(keep, "BYTES_LOOKED_AT", 1)
    statement = 1
    some = [(key, title, "x" * 10_000 if large else note) for key, title, note in ROWS]
    rows = [(*row, kinds.rsplit(maxsplit=1)[-1] if row[0] == "4" else "open") for row in some]
    while run_killed_at(desk, statement, rows, SHELF):
        assert desk.value("SELECT to_regclass('etl.shelf')") is None
        statement += 1
    assert statement > 15  # the transaction has that many statements at least
    assert len(desk.rows("etl.shelf")) == (4 if kinds == "open" else 3)


@pytest.mark.slow
@pytest.mark.parametrize("emptied", [True, False])
def test_a_large_load_cut_before_any_statement_leaves_all_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, *, emptied: bool
) -> None:
    by_small_chunks(desk, monkeypatch, 20)
    table = altered(BOOKS, filter=RowFilter("note", values=("x" * 300,)))
    rows = [(str(number), f"title {number}", "x" * 300) for number in range(1, 1001)]
    desk.run(rows, table)
    desk.admin.execute("TRUNCATE etl.books" if emptied else "VACUUM etl.books")
    rows[500:502] = [("501", "another", "x" * 300), ("502", "left out", "")]
    before = desk.picture()
    statement = 1
    while run_killed_at(desk, statement, rows, table):
        assert desk.picture() == before, f"something changed when cut before statement {statement}"
        assert desk.value(LOCKS_HELD) == 0
        assert desk.value("SELECT count(*) FROM pg_class WHERE relname LIKE 'refresh_%' AND relpersistence = 't'") == 0
        statement += 1
    assert statement > 30  # the file has three chunks
    assert desk.value("SELECT count(*) FROM etl.books WHERE title = 'another'") == 1
    assert desk.value("SELECT count(*) FROM etl.books") == 999


def test_a_held_advisory_lock_means_locked_and_nothing_is_done(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    with session(desk) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl:books'))")
        result = desk.run(NEXT)
    assert (result.outcome, result.message) == ("locked", "another refresh holds the lock: skipped")
    assert desk.picture() == before


def test_the_datasets_table_is_locked_by_the_schema_alone_as_the_cron_job_does(desk: Desk) -> None:
    datasets = altered(BOOKS, name="datasets")
    with session(desk) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl'))")
        assert desk.run(ROWS, datasets).outcome == "locked"
        assert desk.run(ROWS).outcome == "loaded"


def test_two_refreshes_at_once_load_once(desk: Desk) -> None:
    desk.run(ROWS)
    break_writes(desk, "PERFORM pg_sleep(0.3)")
    outcomes: list[str] = []
    load = desk.load(NEXT)

    def one() -> None:
        with connect(desk.settings, "test at once") as conn:
            outcomes.append(replace(conn, load).outcome)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes).count("loaded") == 1
    assert set(outcomes) <= {"loaded", "locked", "unchanged"}
    assert desk.value("SELECT count(*) FROM etl.refresh_loads") == 2


def test_another_sessions_lock_on_the_table_fails_after_the_time_out(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    with session(desk) as other:
        other.execute("LOCK TABLE etl.books IN SHARE ROW EXCLUSIVE MODE")
        with pytest.raises(RefreshError, match=r"lock time-out: .* the refresh of etl\.books needs"):
            desk.run(NEXT)
    assert desk.picture() == before
    assert desk.run(NEXT).outcome == "loaded"


def test_a_lower_time_out_of_the_role_stays_in_force(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute(f"ALTER DATABASE {desk.settings.database} SET lock_timeout = '200ms'")
    with session(desk) as other:
        other.execute("LOCK TABLE etl.books IN SHARE ROW EXCLUSIVE MODE")
        began = time.monotonic()
        with connect(desk.settings, "test") as conn, pytest.raises(RefreshError, match="lock time-out"):
            replace(conn, desk.load(NEXT), lock_seconds=60)
        assert time.monotonic() - began < 10


def test_a_readers_open_transaction_neither_blocks_nor_is_blocked(desk: Desk) -> None:
    desk.run(ROWS)
    with session(desk) as reader:
        assert len(reader.execute("SELECT * FROM etl.books").fetchall()) == 4
        assert desk.run(NEXT).outcome == "loaded"
        reader.execute("SET LOCAL statement_timeout = '60s'")
        assert reader.execute("SELECT count(*) FROM etl.books").fetchone() == (4,)


def test_readers_see_the_old_rows_until_the_commit(desk: Desk) -> None:
    desk.run(ROWS)
    break_writes(desk, "PERFORM pg_sleep(0.2)")
    titles: set[tuple[Any, ...]] = set()
    done = threading.Event()

    def read() -> None:
        with connect(desk.settings, "test reader") as conn:
            while not done.is_set():
                titles.add(tuple(row[0] for row in conn.execute("SELECT id FROM etl.books ORDER BY 1").fetchall()))

    reader = threading.Thread(target=read)
    reader.start()
    desk.run(NEXT)
    done.set()
    reader.join(30)
    assert titles
    assert titles <= {(1, 2, 3, 4), (1, 3, 4, 5)}


def fail_first(desk: Desk, times: int, code: str) -> None:
    desk.admin.execute("CREATE SEQUENCE etl.tries")
    break_writes(
        desk, f"IF nextval('etl.tries') <= {times} THEN RAISE EXCEPTION 'try again' USING ERRCODE = '{code}'; END IF"
    )


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_serialization_failure_or_a_deadlock_repeats_the_whole_transaction(desk: Desk, code: str) -> None:
    desk.run(ROWS)
    fail_first(desk, 1, code)
    assert desk.run(NEXT).outcome == "loaded"
    assert desk.value("SELECT count(*) FROM etl.refresh_loads") == 2


def test_retries_are_bounded(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    fail_first(desk, 1000, "40001")
    with pytest.raises(psycopg.errors.SerializationFailure):
        desk.run(NEXT)
    assert desk.value("SELECT last_value FROM etl.tries") == ATTEMPTS
    assert desk.picture() == before


@pytest.mark.parametrize("code", ["53100", "57014", "23514", "P0001"])
def test_any_other_error_fails_at_once(desk: Desk, code: str) -> None:
    desk.run(ROWS)
    before = desk.picture()
    fail_first(desk, 1000, code)
    with pytest.raises((psycopg.Error, RefreshError)):
        desk.run(NEXT)
    assert desk.value("SELECT last_value FROM etl.tries") == 1
    assert desk.picture() == before


def test_a_server_process_that_ends_in_the_middle_fails_at_once(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    break_writes(desk, "PERFORM pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(psycopg.OperationalError):
        desk.run(NEXT)
    assert desk.picture() == before
    desk.admin.execute("DROP TRIGGER broken ON etl.books")
    assert desk.run(NEXT).outcome == "loaded"


def test_a_role_that_may_not_write_the_table_is_told_so_and_nothing_changes(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    desk.admin.execute("CREATE ROLE looker NOLOGIN")
    try:
        desk.admin.execute("GRANT USAGE ON SCHEMA etl TO looker")
        desk.admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA etl TO looker")
        with connect(desk.settings, "test") as conn:
            conn.execute("SET ROLE looker")
            with pytest.raises(RefreshError, match=r"lacks a right .* permission denied"):
                replace(conn, desk.load(NEXT))
    finally:
        desk.admin.execute("DROP OWNED BY looker")
        desk.admin.execute("DROP ROLE looker")
    assert desk.picture() == before


def test_a_schema_made_by_somebody_else_is_used_without_the_right_to_create_one(desk: Desk) -> None:
    desk.admin.execute("CREATE ROLE modest NOLOGIN")
    try:
        desk.admin.execute("CREATE SCHEMA etl")
        desk.admin.execute("GRANT USAGE, CREATE ON SCHEMA etl TO modest")
        with connect(desk.settings, "test") as conn:
            conn.execute("SET ROLE modest")
            assert replace(conn, desk.load(ROWS)).outcome == "loaded"
    finally:
        desk.admin.execute("DROP OWNED BY modest")
        desk.admin.execute("DROP ROLE modest")


def test_other_writers_wait_until_the_commit(desk: Desk) -> None:
    desk.run(ROWS)
    break_writes(desk, "PERFORM pg_sleep(2)")
    thread = threading.Thread(target=desk.run, args=(NEXT,))
    thread.start()
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    wait_until(lambda: desk.value(asleep))
    with session(desk) as writer:
        writer.execute("SET LOCAL lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            # A row that the refresh does not touch: the table's lock alone keeps it.
            writer.execute("DELETE FROM etl.books WHERE id = 4")
    thread.join(60)


def test_a_statement_that_takes_too_long_is_ended_by_the_server(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    break_writes(desk, "PERFORM pg_sleep(30)")
    told = r"time-out: .* the refresh of etl\.books .* 0\.5 s \(REFRESH_STATEMENT_TIMEOUT\)"
    with connect(desk.settings, "test") as conn, pytest.raises(RefreshError, match=told):
        replace(conn, desk.load(NEXT), statement_seconds=0.5)
    assert desk.picture() == before


def test_a_server_that_never_answers_is_told_as_a_time_out(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = altered(desk.settings, port=silent.getsockname()[1])
        with pytest.raises(RefreshError, match=r"no connection to the database .*: time-out: "):
            connect(settings, "test", {"connect_timeout": 2})


def test_a_statement_that_a_person_cancels_is_no_time_out(desk: Desk) -> None:
    desk.run(ROWS)
    break_writes(desk, "PERFORM pg_cancel_backend(pg_backend_pid())")
    with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
        desk.run(NEXT)


def test_a_refresh_that_stops_in_the_middle_is_ended_by_the_server(desk: Desk) -> None:
    with connect(desk.settings, "test") as conn, conn.transaction():
        limit(conn, lock_seconds=1, statement_seconds=1)
        row = conn.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert row == ("5min",)


def test_a_commit_that_never_comes_leaves_all_as_it_was(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    desk.admin.execute(
        "CREATE FUNCTION etl.cut() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
    )
    # Deferred: it strikes when the transaction commits, after every statement of ours.
    desk.admin.execute(
        "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON etl.refresh_loads DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION etl.cut()"
    )
    with pytest.raises(psycopg.OperationalError):
        desk.run(NEXT)
    assert desk.picture() == before


def test_the_tables_of_the_state_are_not_waited_for_without_end(desk: Desk) -> None:
    with session(desk) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:create:etl'))")
        with pytest.raises(RefreshError, match="lock time-out"), connect(desk.settings, "test") as conn:
            replace(conn, desk.load(ROWS), lock_seconds=0.2)

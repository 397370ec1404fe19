"""Whatever goes wrong while windows are loaded: rows, windows and marker are of one and the same state."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import errors

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.windows.giving_way import ATTEMPTS
from refresh_assets.windows.load import Loading, Result, load
from refresh_assets.windows.source import BrokenLinesError, Staged
from refresh_assets.windows.window import Window
from refresh_assets_tests.postgres_fixtures import LOCKS_HELD
from refresh_assets_tests.windows_fixtures import LookingTable, WindowDesk, at, crowd, day

pytestmark = pytest.mark.slow

DAYS = [day("2026-03-02"), day("2026-03-03")]


class StrikingCursor(psycopg.Cursor[Any]):
    """Does something before the statement with the number `at`."""

    at = 0
    count = 0
    strike: Any = None

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        cls = type(self)
        cls.count += 1
        if cls.count == cls.at:
            cls.strike(self.connection)
        return super().execute(*args, **kwargs)


def load_struck(windows: WindowDesk, statement: int, strike: Callable[[psycopg.Connection[Any]], object]) -> Result:
    """Load two days with something done before a statement."""
    StrikingCursor.at, StrikingCursor.count, StrikingCursor.strike = statement, 0, staticmethod(strike)
    result = Result()
    with connect(windows.settings, "test struck") as conn:
        conn.cursor_factory = StrikingCursor
        for _done in load(conn, Loading(windows.plan, windows.source, 5), DAYS, result):
            pass
    return result


def killed_at(windows: WindowDesk, statement: int) -> bool:
    """Load two days with the session ended before one statement; tell whether there was such a statement."""

    def kill(conn: psycopg.Connection[Any]) -> None:
        windows.admin.execute("SELECT pg_terminate_backend(%s, 5000)", (conn.info.backend_pid,))

    with contextlib.suppress(RefreshError, psycopg.OperationalError):
        load_struck(windows, statement, kill)
    return StrikingCursor.count >= statement


def agreed(windows: WindowDesk) -> None:
    """Assert that rows, loads and marker are of one state."""
    loaded = [row[0] for row in windows.rows("SELECT since FROM etl.window_loads WHERE rows > 0 ORDER BY since")]
    shown = [row[0] for row in windows.rows("SELECT DISTINCT since FROM etl.activity_metrics ORDER BY since")]
    assert loaded == shown
    assert windows.marker == windows.value("SELECT max(until) FROM etl.window_loads")
    miscounted = (
        "SELECT count(*) FROM etl.window_loads AS loads WHERE rows <> "
        "(SELECT count(*) FROM etl.activity_metrics AS metrics WHERE metrics.since = loads.since)"
    )
    assert windows.value(miscounted) == 0
    assert windows.value(LOCKS_HELD) == 0


def test_killed_before_any_statement_rows_and_marker_agree_and_the_next_run_goes_on(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    for window in DAYS:
        windows.write(*crowd(window.since.isoformat(), "oak", 6))
    statement = 1
    markers = set()
    while killed_at(windows, statement):
        agreed(windows)
        markers.add(windows.marker)
        windows.admin.execute("DELETE FROM etl.activity_metrics WHERE since >= '2026-03-02Z'")
        windows.admin.execute("DELETE FROM etl.window_loads WHERE since >= '2026-03-02Z'")
        windows.admin.execute("UPDATE etl.window_state SET marker = '2026-03-02Z'")
        statement += 1
    assert statement > 30
    assert markers == {at("2026-03-02"), at("2026-03-03"), at("2026-03-04")}
    assert windows.events() == {"2026-03-02": {"oak": 6}, "2026-03-03": {"oak": 6}}


def test_killed_before_any_statement_a_second_load_shows_old_or_new_rows_and_never_a_mixture(
    windows: WindowDesk,
) -> None:
    for window in DAYS:
        windows.write(*crowd(window.since.isoformat(), "oak", 6))
    windows.load(*DAYS)
    windows.write(*crowd("2026-03-02T10:00Z", "elm", 7), *crowd("2026-03-02T11:00Z", "oak", 1))
    statement = 1
    seen = []
    while killed_at(windows, statement):
        found = windows.events()["2026-03-02"]
        if found not in seen:
            seen.append(found)
        assert windows.marker == at("2026-03-04")
        statement += 1
    assert seen == [{"oak": 6}, {"elm": 7, "oak": 7}]


def test_a_first_load_that_is_killed_leaves_rows_and_marker_that_agree(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-02T10:00Z", "oak", 6))
    statement = 1
    while killed_at(windows, statement):
        if windows.value("SELECT to_regclass('etl.window_state')"):
            agreed(windows)
            windows.admin.execute("DROP SCHEMA etl CASCADE")
        statement += 1
    assert windows.marker == at("2026-03-04")


@pytest.mark.parametrize("error", [errors.SerializationFailure, errors.DeadlockDetected])
@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_transaction_that_gave_way_to_another_is_tried_again(
    windows: WindowDesk, error: type[psycopg.Error], times: int
) -> None:
    windows.write(*crowd("2026-03-02T10:00Z", "oak", 6))
    windows.load(day("2026-03-01"))
    giving_way(windows, error, times)
    (done,) = windows.load(day("2026-03-02")).done
    assert (done.outcome, done.rows) == ("loaded", 1)
    assert windows.value("SELECT last_value FROM etl.tries") == times + 1


def test_one_that_always_gives_way_is_given_up(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-02T10:00Z", "oak", 6))
    windows.load(day("2026-03-01"))
    giving_way(windows, errors.SerializationFailure, 1000)
    with pytest.raises(RefreshError, match="SQLSTATE 40001"):
        windows.load(*DAYS)
    assert windows.value("SELECT last_value FROM etl.tries") == ATTEMPTS
    assert windows.marker == at("2026-03-02")


def giving_way(windows: WindowDesk, error: type[psycopg.Error], times: int) -> None:
    """Let a trigger raise the error so many times; a sequence counts, which no rollback sets back."""
    windows.admin.execute("CREATE SEQUENCE etl.tries")
    windows.admin.execute(
        "CREATE FUNCTION etl.give_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('etl.tries') <= {times} THEN RAISE 'gave way' USING ERRCODE = '{error.sqlstate}'; END IF; "
        "RETURN NEW; END $$"
    )
    windows.admin.execute(
        "CREATE TRIGGER give_way BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.give_way()"
    )


def test_a_lock_on_the_table_is_waited_for_no_longer_than_set_and_nothing_has_changed(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    before = windows.picture()
    locking = held(windows, "LOCK TABLE etl.activity_metrics IN SHARE ROW EXCLUSIVE MODE")
    with locking, pytest.raises(RefreshError, match="lock time-out"):
        windows.load(*DAYS, lock_seconds=0.2)
    assert windows.picture() == before


@contextlib.contextmanager
def held(windows: WindowDesk, statement: str) -> Iterator[None]:
    with connect(windows.settings, "test other") as other, other.transaction():
        other.execute(statement)
        yield


def test_a_log_that_cannot_be_read_changes_nothing(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    before = windows.picture()
    windows.admin.execute("ALTER TABLE log RENAME TO other")
    with pytest.raises(RefreshError, match=r'relation "public.log" does not exist'):
        windows.load(*DAYS)
    assert windows.picture() == before
    assert windows.value(LOCKS_HELD) == 0


def test_a_window_with_too_many_broken_lines_fails_and_the_others_are_loaded(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))

    class Broken(LookingTable):
        def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
            if DAYS[0] in windows:
                raise BrokenLinesError("too many broken lines", [DAYS[0]])
            return super().stage(conn, windows, progress)

    windows.source = Broken(conn=windows.source.conn)
    windows.write(*crowd("2026-03-03T10:00Z", "oak", 6))
    assert [(done.window, done.outcome) for done in windows.load(*DAYS).done] == [
        (DAYS[0], "failed"),
        (DAYS[1], "loaded"),
    ]
    assert windows.events() == {"2026-03-03": {"oak": 6}}
    assert windows.marker == at("2026-03-02")


def test_readers_see_a_window_whole_while_it_is_replaced(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-02T10:00Z", "oak", 6), *crowd("2026-03-02T10:00Z", "elm", 6))
    windows.load(day("2026-03-02"))
    stop = threading.Event()
    counts = set()

    def read() -> None:
        with connect(windows.settings, "test reader") as conn:
            while not stop.is_set():
                row: Any = conn.execute("SELECT count(*) FROM etl.activity_metrics").fetchone()
                counts.add(row[0])

    reader = threading.Thread(target=read)
    reader.start()
    for _time in range(10):
        windows.load(day("2026-03-02"))
    stop.set()
    reader.join(30)
    assert counts == {2}


def test_rows_that_vanish_as_they_are_written_fail_the_window(windows: WindowDesk) -> None:
    windows.load()
    windows.admin.execute(
        "CREATE FUNCTION etl.doubled() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN DELETE FROM etl.activity_metrics WHERE course = 'elm'; RETURN NULL; END $$"
    )
    windows.admin.execute("CREATE TRIGGER doubled AFTER INSERT ON etl.activity_metrics EXECUTE FUNCTION etl.doubled()")
    windows.write(*crowd("2026-03-02T10:00Z", "oak", 6), *crowd("2026-03-02T10:00Z", "elm", 6))
    (done,) = windows.load(day("2026-03-02")).done
    assert done.outcome == "failed"
    assert "something removes or hides rows" in done.reason


def test_a_source_that_counts_outside_its_windows_is_a_fault_of_ours_and_loads_nothing(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    before = windows.picture()

    class Stray(LookingTable):
        def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
            (window,) = windows
            return super().stage(conn, [window, Window(window.until, at("2026-04-01"))], progress)

    windows.source = Stray(conn=windows.source.conn)
    windows.write(*crowd("2026-03-03T10:00Z", "oak", 6))
    with pytest.raises(AssertionError, match="outside the windows"):
        windows.load(day("2026-03-02"))
    assert windows.picture() == before

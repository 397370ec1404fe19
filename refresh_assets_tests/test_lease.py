"""The lease and its guard, the fence and the register, each on a real server."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.exc
from sqlalchemy.pool import NullPool, Pool

from refresh_assets.daemon.fence import Fence
from refresh_assets.daemon.guard import LOST, Guard
from refresh_assets.daemon.lease import Lease
from refresh_assets.daemon.register import Register, connect_register, last_term, participants
from refresh_assets.daemon.timing import Timing
from refresh_assets.errors import RefreshError
from refresh_assets_tests.shop import Shop
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.wire import line_to

pytestmark = pytest.mark.slow

QUICK = Timing(ping=0.1, answer=0.3, lease=0.8, grace=0.5, poll=0.05, takeover=2)
WAYS = pytest.mark.parametrize("in_transaction", [False, True], ids=["idle_session_timeout", "as before 14"])


@pytest.fixture
def env(database: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("DAGSTER_POSTGRES_URL", raising=False)
    return database


@pytest.fixture
def open_lease(env: dict[str, str]) -> Iterator[Callable[..., Lease]]:
    opened: list[Lease] = []

    def open_it(timing: Timing = QUICK, *, in_transaction: bool | None = None) -> Lease:
        opened.append(Lease.open(env, timing, in_transaction=in_transaction))
        return opened[-1]

    yield open_it
    for lease in opened:
        lease.close()


# The lease


@WAYS
def test_one_session_gets_the_lease_and_the_next_when_it_is_given_up(
    open_lease: Callable[..., Lease], in_transaction: bool
) -> None:
    first, second = (open_lease(Timing(), in_transaction=in_transaction) for _lease in range(2))
    assert first.try_lock()
    assert (first.ping(), second.try_lock(), second.ping()) == (True, False, False)
    first.release()
    assert second.try_lock()
    assert second.ping()


@WAYS
def test_the_server_frees_the_lease_of_a_session_that_falls_silent(
    open_lease: Callable[..., Lease], in_transaction: bool
) -> None:
    other = open_lease(Timing(lease=60), in_transaction=in_transaction)
    silent = open_lease(in_transaction=in_transaction)
    assert silent.try_lock()
    began = time.monotonic()
    wait_until(other.try_lock)
    assert time.monotonic() - began < QUICK.lease + 5
    with pytest.raises(psycopg.Error):
        silent.ping()


@WAYS
def test_pings_keep_the_lease(open_lease: Callable[..., Lease], in_transaction: bool) -> None:
    timing = replace(QUICK, lease=2)
    lease, other = (open_lease(timing, in_transaction=in_transaction) for _lease in range(2))
    assert lease.try_lock()
    until = time.monotonic() + 1.5 * timing.lease
    while time.monotonic() < until:
        assert (lease.ping(), other.try_lock()) == (True, False)
        time.sleep(timing.ping)


@WAYS
def test_the_lease_keeps_no_snapshot_and_no_transaction_number(
    open_lease: Callable[..., Lease], env: dict[str, str], in_transaction: bool
) -> None:
    lease = open_lease(Timing(), in_transaction=in_transaction)
    lease.try_lock()
    lease.ping()
    with connect_register(env) as conn:
        held = conn.execute("SELECT backend_xid, backend_xmin FROM pg_stat_activity WHERE pid = %s", [lease.pid])
        assert held.fetchall() == [(None, None)]


def test_times_that_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="must have ended itself"):
        replace(Timing(), grace=4)
    with pytest.raises(ValueError, match="must have ended itself"):
        replace(Timing(), lease=4)


# The guard


# Pings as often as QUICK, and waits for their answers as long as a slow machine needs.
PATIENT = Timing(ping=0.1, answer=3, lease=6, grace=4)


def losses(lease: Lease) -> list[str]:
    told: list[str] = []
    Guard(lease, PATIENT, told.append).start()
    return told


def test_the_guard_sees_that_the_session_was_ended(open_lease: Callable[..., Lease], env: dict[str, str]) -> None:
    lease = open_lease(PATIENT)
    lease.try_lock()
    told = losses(lease)
    with connect_register(env) as conn:
        conn.execute("SELECT pg_terminate_backend(%s)", [lease.pid])
    wait_until(lambda: told)
    assert "the lease's session is gone" in told[0]


def test_the_guard_sees_that_the_lock_is_gone_while_the_session_lives(open_lease: Callable[..., Lease]) -> None:
    lease = open_lease(PATIENT)
    told = losses(lease)
    wait_until(lambda: told)
    assert told[0] == "the lease is no longer held by this process"


def test_the_guard_does_not_wait_longer_for_an_answer_than_it_may(env: dict[str, str]) -> None:
    with line_to(env) as (line, through):
        lease = Lease.open(through, PATIENT)
        lease.try_lock()
        told = losses(lease)
        time.sleep(3 * PATIENT.ping)
        assert told == []
        line.cut()
        began = time.monotonic()
        wait_until(lambda: told)
        assert time.monotonic() - began < PATIENT.ping + PATIENT.answer + 2
        assert "has not confirmed the lease" in told[0]


def test_losing_the_lease_ends_the_process_at_once() -> None:
    code = (
        "import threading, time\n"
        "from refresh_assets.daemon import guard\n"
        "guard._LAST_WORDS = 10\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "try:\n    guard.end_at_once('gone')\nfinally:\n    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (LOST, "refresh-assets daemon: gone; ending at once\n")


# The fence


@pytest.fixture
def fence() -> Iterator[Fence]:
    told: list[str] = []
    fence = Fence(told.append)
    fence.install()
    yield fence
    sqlalchemy.event.remove(Pool, "connect", fence._enter)  # noqa: SLF001


@pytest.fixture
def storage(env: dict[str, str]) -> sqlalchemy.Engine:
    """Return an engine as those of Dagster's storage are."""
    url = sqlalchemy.URL.create(
        "postgresql+psycopg2",
        env["PGUSER"],
        env["PGPASSWORD"],
        env["PGHOST"],
        int(env["PGPORT"]),
        env["PGDATABASE"],
    )
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as conn:
        conn.execute(sqlalchemy.text("CREATE TABLE run (slot integer)"))
    return engine


INSERT = sqlalchemy.text("INSERT INTO run VALUES (1)")
WAITS_FOR_THE_FENCE = """
    SELECT FROM pg_locks JOIN pg_database ON oid = database
    WHERE datname = current_database() AND locktype = 'advisory' AND objid = 2 AND NOT granted
"""


def test_what_a_frozen_leader_was_about_to_write_is_not_written(
    env: dict[str, str], open_lease: Callable[..., Lease], fence: Fence, storage: sqlalchemy.Engine
) -> None:
    old, new = open_lease(Timing()), open_lease(Timing())
    assert old.try_lock()
    fence.begin(Register(env).begin_term(old.pid))
    # It has looked that there is no run for a slot, and is frozen before it makes one.
    with storage.connect() as conn:
        assert conn.execute(sqlalchemy.text("SELECT count(*) FROM run")).scalar() == 0
        old.close()
        wait_until(new.try_lock)
        Register(env).begin_term(new.pid)
        with pytest.raises(sqlalchemy.exc.OperationalError):
            conn.execute(INSERT)
        conn.invalidate()
    # Its next connection shows it that it does not lead any more.
    with pytest.raises(SystemExit):
        storage.connect()
    with connect_register(env) as conn:
        assert conn.execute("SELECT count(*) FROM run").fetchall() == [(0,)]


def test_a_term_begins_only_after_what_the_last_leader_was_writing(
    env: dict[str, str],
    open_lease: Callable[..., Lease],
    fence: Fence,
    storage: sqlalchemy.Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("refresh_assets.daemon.register._PATIENCE", "10s")
    lease = open_lease(Timing())
    lease.try_lock()
    register = Register(env)
    term = register.begin_term(lease.pid)
    fence.begin(term)
    conn = storage.connect()
    ended = threading.Thread(target=register.end_term, args=(term,))
    ended.start()
    with connect_register(env) as other:
        wait_until(lambda: other.execute(WAITS_FOR_THE_FENCE).fetchall())
    assert not register.was_handed_over()
    conn.execute(INSERT)
    conn.close()
    ended.join(5)
    assert register.was_handed_over()


def test_after_its_end_only_the_thread_that_ended_it_may_connect(fence: Fence, storage: sqlalchemy.Engine) -> None:
    fence.end()
    storage.connect().close()
    ended: list[BaseException] = []

    def work() -> None:
        try:
            storage.connect()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the assertion shows it
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [type(error) for error in ended] == [SystemExit]


# The register


def test_terms_are_counted_and_a_handover_is_remembered(env: dict[str, str], open_lease: Callable[..., Lease]) -> None:
    register = Register(env)
    assert register.was_handed_over()
    lease = open_lease(Timing())
    lease.try_lock()
    first = register.begin_term(lease.pid)
    assert not register.was_handed_over()
    register.end_term(first)
    assert register.was_handed_over()
    assert register.begin_term(lease.pid) > first


def test_without_the_lease_no_term_begins(env: dict[str, str], open_lease: Callable[..., Lease]) -> None:
    with pytest.raises(RefreshError, match="the lease was lost"):
        Register(env).begin_term(open_lease(Timing()).pid)
    with connect_register(env) as conn:
        assert last_term(conn) is None


def test_who_takes_part_is_seen_and_who_leaves_is_not(env: dict[str, str], open_lease: Callable[..., Lease]) -> None:
    leading, other = open_lease(Timing()), open_lease(Timing())
    leading.try_lock()
    with connect_register(env) as conn, Register(env) as one, Register(env) as two:
        two.enter("standby", other.pid)
        one.enter("leader", leading.pid)
        wait_until(lambda: [(x.state, x.leads) for x in participants(conn)] == [("leader", True), ("standby", False)])
        leading.close()
        wait_until(lambda: [x.state for x in participants(conn)] == ["standby"])
    with connect_register(env) as conn:
        assert participants(conn) == []


def test_the_register_makes_its_tables_when_two_come_at_once(env: dict[str, str]) -> None:
    problems: list[BaseException] = []

    def come() -> None:
        try:
            connect_register(env).close()
        except psycopg.Error as error:
            problems.append(error)

    threads = [threading.Thread(target=come) for _one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_storage_in_another_database_than_the_lease_is_refused(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    code, _out, err = shop.run("daemon", DAGSTER_HOME=str(tmp_path), REFRESH_HOME=str(tmp_path / "home"))
    assert code == 1
    assert "is not in the database that the settings name" in err

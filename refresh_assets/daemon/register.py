"""Who takes part and who leads since when: tables in the schema `refresh_daemon`, beside Dagster's storage."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Literal

import psycopg
from psycopg.errors import LockNotAvailable
from typing_extensions import Self

from refresh_assets.alerts.heartbeat import host_name
from refresh_assets.alerts.storage import connect_storage
from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.timing import Timing
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import Env

SCHEMA = "refresh_daemon"
TABLES = ("participant", "term")
State = Literal["standby", "taking over", "leader", "stopping"]
_PATIENCE = "300ms"
_REGISTER = queries("refresh_assets.daemon", "sql/register.sql")


@dataclass(frozen=True)
class Participant:
    """A process that takes part; `leads` tells whether the server sees it hold the lease. Instants are aware."""

    host: str
    pid: int
    state: State
    since: datetime
    seen_at: datetime
    leads: bool


@dataclass(frozen=True)
class Term:
    """One leader's time; `ended_at` is None unless it gave the lease up itself."""

    host: str
    pid: int
    began_at: datetime
    ended_at: datetime | None


class Register:
    """The entry of this process, kept fresh by a thread. Its troubles are nobody's: the lease has its own session."""

    def __init__(self, env: Env = os.environ, timing: Timing = Timing()) -> None:  # noqa: B008
        self._env = env
        self._timing = timing
        self._me = {"participant_id": uuid.uuid4(), "host": host_name(), "pid": os.getpid()}
        self._state: State = "standby"
        self._lease_pid: int | None = None
        self._conn: Connection | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="register", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._changed.set()
        self._thread.join(self._timing.answer)

    def enter(self, state: State, lease_pid: int | None) -> None:
        """Note a new state, and the server's process that has the lease's session; written down in a moment."""
        if (state, lease_pid) != (self._state, self._lease_pid):
            self._state, self._lease_pid = state, lease_pid
            self._changed.set()

    def was_handed_over(self) -> bool:
        """Tell whether the last leader gave the lease up itself, or there never was one."""
        with connect_register(self._env) as conn:
            row = conn.execute(_REGISTER["was_handed_over"]).fetchone()
            return bool(row and row[0])

    def begin_term(self, lease_pid: int) -> int:
        """End every session that an earlier leader left, and begin a term; return its number.

        Raises RefreshError where the lease is not held or those sessions do not end, psycopg.Error where the
        database is away.
        """
        with connect_register(self._env) as conn:
            term = self._alone(conn, "begin_term", {**self._me, "lease_pid": lease_pid}, self._timing.takeover)
            conn.execute(_REGISTER["prune_terms"])
            conn.execute(_REGISTER["prune_participants"])
            return term

    def end_term(self, term: int) -> None:
        """Write down that this leader gave up its term; so the next one need not wait. Raises as `begin_term` does."""
        with connect_register(self._env) as conn:
            self._alone(conn, "end_term", {"term": term}, self._timing.answer)

    def _alone(self, conn: Connection, statement: str, values: dict[str, Any], seconds: float) -> int:
        """Execute a statement while no session is within the fence."""
        deadline = elapsed() + seconds
        while True:
            with contextlib.suppress(LockNotAvailable), conn.transaction():
                conn.execute(_REGISTER["patience"], {"patience": _PATIENCE})
                conn.execute(_REGISTER["fence"])
                cursor = conn.execute(_REGISTER[statement], values)
                if cursor.rowcount != 1:
                    raise RefreshError("the lease was lost before the term began or ended")
                row: Any = cursor.fetchone() if cursor.description else None
                return int(row[0]) if row else 0
            if elapsed() > deadline:
                raise RefreshError("sessions of an earlier leader do not end; see pg_locks and pg_stat_activity")
            conn.execute(_REGISTER["end_fenced"])

    def _work(self) -> None:
        while not self._done.is_set():
            with contextlib.suppress(RefreshError, psycopg.Error):
                self._beat()
            self._changed.wait(self._timing.beat)
            self._changed.clear()
        with contextlib.suppress(RefreshError, psycopg.Error):
            self._connection().execute(_REGISTER["leave"], self._me)
        self._close()

    def _beat(self) -> None:
        lease_pid = self._lease_pid
        values = {**self._me, "state": self._state, "lease_pid": lease_pid}
        try:
            conn = self._connection()
            conn.execute(_REGISTER["beat"], values)
            if lease_pid is not None:
                conn.execute(_REGISTER["own_session"], values)
        except BaseException:
            self._close()
            raise

    def _connection(self) -> Connection:
        if self._conn is None:
            self._conn = connect_register(self._env)
        return self._conn

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()


def connect_register(env: Env = os.environ) -> Connection:
    """Open a connection to the register; schema and tables are made where absent.

    Raises SettingsError, and RefreshError where the server cannot be reached.
    """
    conn = connect_storage(env, "refresh-assets daemon")
    try:
        _create(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def exists(conn: Connection) -> bool:
    """Tell whether a daemon ever took part here."""
    row = conn.execute(_REGISTER["absent"]).fetchone()
    return bool(row and not row[1])


def participants(conn: Connection) -> list[Participant]:
    """Return who takes part at present, the leader first."""
    rows: Any = conn.execute(_REGISTER["participants"]).fetchall()
    return [Participant(*row) for row in rows]


def last_term(conn: Connection) -> Term | None:
    """Return the newest term."""
    row: Any = conn.execute(_REGISTER["last_term"]).fetchone()
    return Term(*row) if row else None


def _create(conn: Connection) -> None:
    row = conn.execute(_REGISTER["absent"]).fetchone()
    no_schema, no_table = row or (False, False)
    if not no_table:
        return
    with conn.transaction():
        # IF NOT EXISTS alone can still fail when two do it at once.
        conn.execute(_REGISTER["create_lock"])
        if no_schema:
            conn.execute(_REGISTER["schema"])
        conn.execute(_REGISTER["participant"])
        conn.execute(_REGISTER["term"])

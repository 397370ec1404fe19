"""A run's proof that it is alive: a row that its process writes again and again, on a connection of its own.

The process may hold Python's lock for longer than a heartbeat may be late, in one long call of a C library. So the
connection itself counts as well: the system closes it when the process ends, and the server notices a dead host.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import psycopg

from refresh_assets.alerts.outbox import create_tables
from refresh_assets.alerts.storage import connect_storage
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import masked
from refresh_assets.settings import Env

# With a run's id below the 63 characters that Postgres keeps of an application's name.
SESSION = "refresh-assets run "
END_SECONDS = 5.0
_CREATE = queries("refresh_assets.alerts", "sql/create.sql")
_HEARTBEAT = queries("refresh_assets.alerts", "sql/heartbeat.sql")


@dataclass(frozen=True)
class Silent:
    """A run whose process is gone; `host` and `pid` are None where it never wrote a heartbeat."""

    run_id: str
    host: str | None
    pid: int | None
    beat_at: datetime


class Heartbeat:
    """Writes a run's heartbeat from a daemon thread while the with-block runs; what goes wrong is only told."""

    def __init__(self, run_id: str, every: timedelta, warn: Callable[[str], object], env: Env = os.environ) -> None:
        self._run_id = run_id
        self._every = every.total_seconds()
        self._warn = warn
        self._env = env
        self._conn: Connection | None = None
        self._told = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(END_SECONDS)

    def _work(self) -> None:
        while True:
            self._try(self._beat)
            if self._done.wait(self._every):
                break
        self._try(self._remove)
        self._close()

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
            self._told = False
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._close()
            if not self._told:
                self._told = True
                with contextlib.suppress(Exception):
                    self._warn(f"the heartbeat of this run could not be written: {masked(error, self._env)}")

    def _beat(self) -> None:
        if self._conn is None:
            self._conn = _open(self._run_id, self._env)
        self._conn.execute(_HEARTBEAT["beat"], {"run_id": self._run_id, "host": host_name(), "pid": os.getpid()})

    def _remove(self) -> None:
        if self._conn is not None:
            self._conn.execute(_HEARTBEAT["remove"], {"run_id": self._run_id})

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()


def silent_runs(conn: Connection, run_ids: Sequence[str], silent: timedelta, second_look: timedelta) -> list[Silent]:
    """Return those of the running runs whose process is gone: no heartbeat, no connection, seen so at two looks.

    A run without any heartbeat is given one at first sight, so that it has as long as every other.
    """
    with conn.transaction():
        conn.execute(_HEARTBEAT["first_sight"], {"run_ids": list(run_ids)})
        rows: Any = conn.execute(
            _HEARTBEAT["suspect"],
            {
                "run_ids": list(run_ids),
                "session": SESSION,
                "silent": silent.total_seconds(),
                "look": second_look.total_seconds(),
            },
        ).fetchall()
    return [Silent(run_id, host, pid, beat_at) for run_id, host, pid, beat_at, dead in rows if dead]


def prune(conn: Connection, running: Sequence[str]) -> None:
    """Remove the heartbeats of runs that are over and could not do it themselves."""
    conn.execute(_HEARTBEAT["prune"], {"run_ids": list(running)})


def create_heartbeats(conn: Connection) -> None:
    """Create the table where it is absent."""
    row = conn.execute(_HEARTBEAT["absent"]).fetchone()
    if row and row[0]:
        create_tables(conn)
        with conn.transaction():
            conn.execute(_CREATE["create_lock"])
            conn.execute(_HEARTBEAT["run_heartbeat"])


def host_name() -> str:
    return socket.gethostname()


def _open(run_id: str, env: Env) -> Connection:
    """Connect under the run's name; the server is told to notice within a minute that our host is gone."""
    conn = connect_storage(env, SESSION + run_id)
    try:
        create_heartbeats(conn)
        conn.execute(_HEARTBEAT["session"], {"session": SESSION + run_id})
    except BaseException:
        conn.close()
        raise
    return conn

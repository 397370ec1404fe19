"""A run's proof that it is alive: a row that its process writes again and again, on a connection of its own.

The process may hold Python's lock for longer than a heartbeat may be late, in one long call of a C library. So the
connection itself counts as well: the system closes it when the process ends, and the server notices a dead host.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from refresh_assets.alerts.outbox import create_tables
from refresh_assets.alerts.pulse import Pulse, name_session
from refresh_assets.alerts.storage import connect_storage
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import Env

# With a run's id below the 63 characters that Postgres keeps of an application's name.
SESSION = "refresh-assets run "
_CREATE = queries("refresh_assets.alerts", "sql/create.sql")
_HEARTBEAT = queries("refresh_assets.alerts", "sql/heartbeat.sql")


@dataclass(frozen=True)
class Silent:
    """A run whose process is gone; `host` and `pid` are None where it never wrote a heartbeat."""

    run_id: str
    host: str | None
    pid: int | None
    beat_at: datetime


class RunBeat:
    """What a `Pulse` does for a run: the row is renewed, and removed at the end."""

    what = "the heartbeat of this run"

    def __init__(self, run_id: str, env: Env = os.environ) -> None:
        self._run_id = run_id
        self._env = env

    def open(self) -> Connection:
        """Connect under the run's name."""
        conn = connect_storage(self._env, SESSION + self._run_id)
        try:
            create_heartbeats(conn)
            name_session(conn, SESSION + self._run_id)
        except BaseException:
            conn.close()
            raise
        return conn

    def beat(self, conn: Connection) -> None:
        conn.execute(_HEARTBEAT["beat"], {"run_id": self._run_id, "host": host_name(), "pid": os.getpid()})

    def end(self, conn: Connection) -> None:
        conn.execute(_HEARTBEAT["remove"], {"run_id": self._run_id})


class Heartbeat(Pulse):
    """Writes a run's heartbeat while the with-block runs; what goes wrong is only told."""

    def __init__(self, run_id: str, every: timedelta, warn: Callable[[str], object], env: Env = os.environ) -> None:
        super().__init__(RunBeat(run_id, env), every, warn, env)


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

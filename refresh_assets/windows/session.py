"""The session in which windows are loaded: its formats, time-outs, and the locks on the windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import IDLE_SECONDS, Connection, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.windows.window import Window

_LOAD = queries("refresh_assets.windows", "sql/load.sql")


def prepare(conn: Connection, *, lock_seconds: float, statement_seconds: float) -> None:
    """Make the session the same for every role and host, with an end to every wait."""
    conn.execute(_LOAD["session"])
    conn.execute(_LOAD["vanish"])
    limit(conn, lock_seconds=lock_seconds, statement_seconds=statement_seconds, session=True)


def try_locks(conn: Connection, schema: str, windows: Sequence[Window]) -> list[Window]:
    """Take the advisory locks of these windows for the session; return those that no other session holds.

    Until `unlock` the session must not be idle for longer than five minutes. Without locks it may: a look at a large
    log takes its time.
    """
    conn.execute(_LOAD["idle"].format(idle=sql.Literal(IDLE_SECONDS * 1000)))
    with conn.transaction():
        conn.execute(_LOAD["gate"].format(schema=sql.Literal(schema)))
        rows: Any = conn.execute(
            _LOAD["try_locks"].format(
                schema=sql.Literal(schema), names=sql.Literal([str(window) for window in windows])
            )
        ).fetchall()
    return [windows[number - 1] for number, taken in rows if taken]


def unlock(conn: Connection) -> None:
    """Give back all advisory locks of the session."""
    conn.execute(_LOAD["unlock"])
    conn.execute(_LOAD["idle_as_before"])

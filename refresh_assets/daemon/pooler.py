"""A pooler that lends its sessions by the transaction: no place for a lock that a session holds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from refresh_assets.daemon.refused import RefusedError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

_ROUNDS = 3
# In a pool whose other clients are busy, each round finds the own session back by chance, about one time in five.
_POOLED_ROUNDS = 20
_LEASE = queries("refresh_assets.daemon", "sql/lease.sql")


def refuse_pooler(conn: Connection, connect: Callable[[], Connection]) -> None:
    """Look whether a connection has a session of the server to itself. Raises RefusedError.

    A second connection holds a transaction open meanwhile: a pooler gives it the session that the first one had before,
    or gives the first one another.
    """
    # A pooler greets with a process number of its own making; only then is it worth the many rounds.
    rounds = _ROUNDS if conn.info.backend_pid == _row(conn, "pid")[0] else _POOLED_ROUNDS
    with connect() as other:
        if not all(_keeps_its_session(conn, other) for _round in range(rounds)):
            raise RefusedError(
                "the database is reached through a pooler that lends sessions by the transaction (PgBouncer's "
                "pool_mode transaction or statement): the daemon's lease needs a session of its own. Let PGHOST and "
                "PGPORT, or DAGSTER_POSTGRES_URL, lead to the server itself, or to a pool with pool_mode session"
            )


def _keeps_its_session(conn: Connection, other: Connection) -> bool:
    token = uuid.uuid4().hex
    pid = _row(conn, "pid")[0]
    conn.execute(_LEASE["remember"], {"token": token})
    with other.transaction():
        lent = _row(other, "pid")[0]
        return bool(lent != pid and _row(conn, "remembered") == (pid, token))


def _row(conn: Connection, statement: str) -> tuple[Any, ...]:
    row = conn.execute(_LEASE[statement]).fetchone()
    return tuple(row) if row else (None,)

"""Connections of the product's own: psycopg 3, given keywords, with time-outs on everything."""

from __future__ import annotations

import psycopg
from psycopg import IsolationLevel

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import PostgresSettings

Connection = psycopg.Connection[tuple[object, ...]]

CONNECT_SECONDS = 10
# An open transaction of ours that waits for us this long has lost us; the server ends it and frees its locks.
IDLE_SECONDS = 300
_LIMITS = queries("refresh_assets.postgres", "session.sql")


def connect(settings: PostgresSettings, application_name: str) -> Connection:
    """Open a connection in autocommit mode, UTF-8, READ COMMITTED.

    Raises RefreshError with the server's words where none can be had.
    """
    try:
        conn = psycopg.connect(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            dbname=settings.database,
            password=settings.password,
            application_name=application_name,
            client_encoding="UTF8",
            connect_timeout=CONNECT_SECONDS,
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=60_000,
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.OperationalError as error:
        raise RefreshError(
            f"no connection to the database {settings.database!r} at {settings.host}:{settings.port}: "
            f"{str(error).strip()}"
        ) from error
    # The default of a role may be stricter, and a snapshot older than our lock would show us a stale state.
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    return conn


def limit(conn: Connection, *, lock_seconds: float, statement_seconds: float) -> None:
    """Set the time-outs of the open transaction; a lower one of the role stays in force."""
    conn.execute(
        _LIMITS["limit"],
        {
            "lock": _milliseconds(lock_seconds),
            "statement": _milliseconds(statement_seconds),
            "idle": IDLE_SECONDS * 1000,
        },
    )


def fix_formats(conn: Connection) -> None:
    """Make the reading and writing of values the same for every role and database, to the transaction's end."""
    conn.execute(_LIMITS["formats"])


def _milliseconds(seconds: float) -> int:
    # 0 would mean no limit.
    return max(1, min(int(seconds * 1000), 2**31 - 1))

"""Connections of the product's own: psycopg 3, given keywords, with time-outs on everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import psycopg
from psycopg import IsolationLevel

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import PostgresSettings

Connection = psycopg.Connection[tuple[object, ...]]

CONNECT_SECONDS = 10
# An open transaction of ours that waits for us this long has lost us; the server ends it and frees its locks.
IDLE_SECONDS = 300
_SESSION = queries("refresh_assets.postgres", "session.sql")


def connect(settings: PostgresSettings, application_name: str, options: Mapping[str, Any] | None = None) -> Connection:
    """Open a connection in autocommit mode, UTF-8, READ COMMITTED; `options` are further keywords of libpq.

    Raises RefreshError with the server's words where none can be had.
    """
    keywords = {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "dbname": settings.database,
        "password": settings.password,
        **(options or {}),
    }
    return connect_with(keywords, application_name, f"{settings.database!r} at {settings.host}:{settings.port}")


def connect_with(keywords: Mapping[str, Any], application_name: str, where: str) -> Connection:
    """Open such a connection by libpq's keywords; `where` names the database in the RefreshError that may be raised."""
    options: dict[str, Any] = {
        "application_name": application_name,
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        **keywords,
        "client_encoding": "UTF8",
    }
    try:
        conn = psycopg.connect(**options, autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        timed_out = "time-out: " if isinstance(error, psycopg.errors.ConnectionTimeout) else ""
        raise RefreshError(f"no connection to the database {where}: {timed_out}{str(error).strip()}") from error
    # What a role or a database sets otherwise, psycopg cannot read.
    if not (conn.info.parameter_status("DateStyle") or "").startswith("ISO"):
        conn.execute(_SESSION["dates"])
    # The default of a role may be stricter, and a snapshot older than our lock would show us a stale state.
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    return conn


def limit(conn: Connection, *, lock_seconds: float, statement_seconds: float, session: bool = False) -> None:
    """Set the time-outs of the open transaction, or of the session; a lower one of the role stays in force."""
    conn.execute(
        _SESSION["limit"],
        {
            "lock": _milliseconds(lock_seconds),
            "statement": _milliseconds(statement_seconds),
            "idle": IDLE_SECONDS * 1000,
            "transaction_only": not session,
        },
    )


def fix_formats(conn: Connection) -> None:
    """Make the reading and writing of values the same for every role and database, to the transaction's end."""
    conn.execute(_SESSION["formats"])


def ask_for_memory(conn: Connection, use: Literal["hash", "sort"]) -> None:
    """Let a statement of the open transaction take 256 MB to hash or to sort rows, or what the role may take if more.

    It replaces what was asked for the other use. An index may be made in 128 MB.
    """
    conn.execute(_SESSION[f"{use}_memory"])


def _milliseconds(seconds: float) -> int:
    # 0 would mean no limit.
    return max(1, min(int(seconds * 1000), 2**31 - 1))

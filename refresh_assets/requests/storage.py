"""The tables of requests: a schema of their own in the database of the refreshed tables."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection, connect, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.settings import read_requests
from refresh_assets.settings import Env, read_postgres

TABLES = ("scheduled_tasks", "request_claims", "request_outcomes")
LOCK_SECONDS = 10
STATEMENT_SECONDS = 30
_CREATE = queries("refresh_assets.requests", "sql/create.sql")


def connect_requests(env: Env = os.environ, application_name: str = "refresh-assets requests") -> Connection:
    """Open a connection in autocommit mode with time-outs for its statements; the tables are made where absent.

    Raises SettingsError, and RefreshError where the server cannot be reached.
    """
    schema = read_requests(env).schema
    conn = connect_plainly(env, application_name)
    try:
        create_tables(conn, schema)
    except BaseException:
        conn.close()
        raise
    return conn


def connect_plainly(env: Env = os.environ, application_name: str = "refresh-assets requests") -> Connection:
    """Open such a connection and make nothing."""
    conn = connect(read_postgres(env), application_name)
    try:
        limit(conn, lock_seconds=LOCK_SECONDS, statement_seconds=STATEMENT_SECONDS, session=True)
    except BaseException:
        conn.close()
        raise
    return conn


def create_tables(conn: Connection, schema: str) -> None:
    """Create the schema and its tables where they are absent, in a transaction of its own.

    A table that was made by db-scheduler's own script is taken over, with what it lacks added.
    """
    if not any(_absent(conn, schema)):
        return
    name = sql.Identifier(schema)
    with conn.transaction():
        # IF NOT EXISTS alone can still fail when two do it at once.
        conn.execute(_CREATE["create_lock"].format(schema=sql.Literal(schema)))
        no_schema, no_tasks, no_claims, no_outcomes, foreign, short_claims = _absent(conn, schema)
        # Each only where absent: the role may lack the right to create what somebody else made for it.
        if no_schema:
            conn.execute(_CREATE["schema"].format(schema=name))
        if no_tasks:
            conn.execute(_CREATE["tasks"].format(schema=name))
        if foreign:
            for statement in ("adopt_columns", "adopt_rows", "adopt"):
                conn.execute(_CREATE[statement].format(schema=name))
        if no_tasks or foreign:
            conn.execute(_CREATE["due_index"].format(schema=name))
            conn.execute(_CREATE["picked_index"].format(schema=name))
        if no_claims:
            conn.execute(_CREATE["claims"].format(schema=name))
        if short_claims:
            conn.execute(_CREATE["extend_claims"].format(schema=name))
            conn.execute(_CREATE["fill_claims"].format(schema=name))
        if no_outcomes:
            conn.execute(_CREATE["outcomes"].format(schema=name))
            conn.execute(_CREATE["outcomes_index"].format(schema=name))


def database_time(conn: Connection) -> datetime:
    """Return the time by the database's clock, in UTC."""
    row: Any = conn.execute(_CREATE["time"]).fetchone()
    now: datetime = row[0]
    return now.astimezone(timezone.utc)


def exist(conn: Connection, schema: str) -> bool:
    """Tell whether the tables are there."""
    return not any(_absent(conn, schema))


def _absent(conn: Connection, schema: str) -> tuple[bool, ...]:
    row = conn.execute(_CREATE["absent"].format(schema=sql.Literal(schema))).fetchone()
    return tuple(bool(value) for value in row or ())

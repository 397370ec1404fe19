"""The database of Dagster's storage, where the outbox lives: a connection to it, without Dagster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import psycopg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from refresh_assets.postgres.connect import Connection, connect, connect_with, limit
from refresh_assets.settings import Env, SettingsError, read_postgres

# An alert is a small row: whatever takes longer than this is a server that does not work.
LOCK_SECONDS = 10
STATEMENT_SECONDS = 30


def connect_storage(
    env: Env = os.environ, application_name: str = "refresh-assets alerts", options: Mapping[str, Any] | None = None
) -> Connection:
    """Open a connection in autocommit mode with time-outs for its statements; `options` are further keywords of libpq.

    It leads where DAGSTER_POSTGRES_URL says, else where the PG* settings say. Raises SettingsError, and RefreshError
    where the server cannot be reached.
    """
    url = env.get("DAGSTER_POSTGRES_URL", "").strip()
    more = options or {}
    conn = _connect_by_url(url, application_name, more) if url else connect(read_postgres(env), application_name, more)
    try:
        limit(conn, lock_seconds=LOCK_SECONDS, statement_seconds=STATEMENT_SECONDS, session=True)
    except BaseException:
        conn.close()
        raise
    return conn


def _connect_by_url(text: str, application_name: str, more: Mapping[str, Any]) -> Connection:
    """Connect by keywords: a URL would stand in the errors, with its password."""
    try:
        url = make_url(text)
        port = url.port
    except (ArgumentError, ValueError):
        raise SettingsError("DAGSTER_POSTGRES_URL is not a database URL") from None
    # Several hosts may be given as a repeated option.
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    named = {"host": url.host, "port": port, "user": url.username, "password": url.password, "dbname": url.database}
    keywords = {**query, **{name: value for name, value in named.items() if value is not None}, **more}
    try:
        return connect_with(keywords, application_name, f"{url.database!r} that DAGSTER_POSTGRES_URL names")
    except psycopg.ProgrammingError:
        raise SettingsError("DAGSTER_POSTGRES_URL has an option that libpq does not know") from None

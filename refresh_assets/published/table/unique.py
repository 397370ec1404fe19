"""Whether the key is unique among all rows, as its type compares it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose

_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")
_CREATE = queries("refresh_assets.published.table", "sql/create.sql")


class RepeatedKeyError(Exception):
    """The key is not unique among the published rows; `keys` are up to three repeated ones, as text."""

    def __init__(self, keys: list[tuple[str, ...]]) -> None:
        super().__init__(str(keys))
        self.keys = keys


def check_key(conn: Connection, key: Sequence[str], table: str) -> None:
    """Check that the key is unique among all rows of a temporary table. Raises RepeatedKeyError."""
    name = sql.Identifier("pg_temp", table)
    try:
        with conn.transaction():
            conn.execute(_STAGE["unique"].format(table=name, key=compose.names(key)))
            # It has proved what it was made for; nothing reads by it.
            raise psycopg.Rollback
    except psycopg.errors.UniqueViolation as error:
        raise _repeated(conn, key, name) from error


def make_primary_key(conn: Connection, key: Sequence[str], table: sql.Identifier) -> None:
    """Give a filled table its primary key: over all rows at once it is made faster than row by row.

    Raises RepeatedKeyError.
    """
    try:
        with conn.transaction():
            conn.execute(_CREATE["primary_key"].format(target=table, key=compose.names(key)))
    except psycopg.errors.UniqueViolation as error:
        raise _repeated(conn, key, table) from error


def _repeated(conn: Connection, key: Sequence[str], table: sql.Identifier) -> RepeatedKeyError:
    pieces = {"table": table, "key": compose.names(key), "texts": compose.texts(key, "staged")}
    rows: list[Any] = conn.execute(_STAGE["duplicates"].format(**pieces)).fetchall()
    return RepeatedKeyError(rows)

"""Whether the key is unique among all rows, as its type compares it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose

_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")


class RepeatedKeyError(Exception):
    """The key is not unique among the published rows; `keys` are up to three repeated ones, as text."""

    def __init__(self, keys: list[tuple[str, ...]]) -> None:
        super().__init__(str(keys))
        self.keys = keys


def check_key(conn: Connection, key: Sequence[str], table: str) -> None:
    """Check that the key is unique among all rows of a temporary table. Raises RepeatedKeyError."""
    name = sql.Identifier("pg_temp", table)
    with telling_repeated_keys(conn, key, name):
        conn.execute(_STAGE["unique"].format(table=name, key=compose.names(key)))
        # It has proved what it was made for; nothing reads by it.
        raise psycopg.Rollback


@contextlib.contextmanager
def telling_repeated_keys(conn: Connection, key: Sequence[str], table: sql.Identifier) -> Iterator[None]:
    """Make a unique index on a table, in a savepoint. Raises RepeatedKeyError in the place of UniqueViolation."""
    try:
        with conn.transaction():
            yield
    except psycopg.errors.UniqueViolation as error:
        pieces = {"table": table, "key": compose.names(key), "texts": compose.texts(key, "staged")}
        rows: list[Any] = conn.execute(_STAGE["duplicates"].format(**pieces)).fetchall()
        raise RepeatedKeyError(rows) from error

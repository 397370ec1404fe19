"""A table at a glance: some of its rows, and which of the file's columns each of its columns is made from."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, fix_formats, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.published.table.load import Row
from refresh_assets.published.table.target import Target

PREVIEW_ROWS = 5
# It is no part of the refresh: what takes longer is left out.
GLANCE_SECONDS = 5.0
_GLANCE = queries("refresh_assets.published.table", "sql/glance.sql")


@dataclass(frozen=True)
class Glance:
    """`preview` holds up to five rows as text, in the order of the declared columns.

    `made_from` has the file's columns by the table's column; a column whose expression cannot be looked into is left
    out.
    """

    preview: Sequence[Row] = ()
    made_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def glance(conn: Connection, schema: str, table: Table) -> Glance:
    """Look at a table; what cannot be had within seconds is left out, nothing is raised for it."""
    made_from: dict[str, tuple[str, ...]] = {
        column.name: (column.name,) for column in table.columns if column.expression is None and column.published
    }
    preview: Sequence[Row] = ()
    with contextlib.suppress(psycopg.Error, RefreshError):
        preview = _preview(conn, schema, table)
    if table.transformed:
        with contextlib.suppress(psycopg.Error):
            made_from |= _by_expression(conn, table)
    in_order = (column.name for column in table.columns if column.name in made_from)
    return Glance(preview, {name: made_from[name] for name in in_order})


def _preview(conn: Connection, schema: str, table: Table) -> Sequence[Row]:
    with conn.transaction():
        limit(conn, lock_seconds=GLANCE_SECONDS, statement_seconds=GLANCE_SECONDS)
        fix_formats(conn)
        target = Target(conn, schema, table)
        # Without an index the whole table would have to be sorted.
        statement = "preview_by_key" if target.unique_index() else "preview"
        rows: Any = conn.execute(
            _GLANCE[statement].format(
                texts=compose.texts([column.name for column in table.columns], "target"),
                target=target.name,
                key=compose.names(table.key, "target"),
                limit=sql.Literal(PREVIEW_ROWS),
            )
        ).fetchall()
    return list(rows)


def _by_expression(conn: Connection, table: Table) -> dict[str, tuple[str, ...]]:
    """Have the server say which columns each expression reads: it notes that for every view."""
    found: dict[str, tuple[str, ...]] = {}
    with conn.transaction(force_rollback=True):
        limit(conn, lock_seconds=GLANCE_SECONDS, statement_seconds=GLANCE_SECONDS)
        nullable = (Column(column.name, column.type) for column in table.published)
        conn.execute(_GLANCE["shape"].format(columns=compose.definitions(nullable)))
        for column in table.columns:
            if column.expression is not None:
                with contextlib.suppress(psycopg.Error), conn.transaction():
                    found[column.name] = _used(conn, column.expression)
    return found


def _used(conn: Connection, expression: str) -> tuple[str, ...]:
    conn.execute(_GLANCE["view"].format(expression=sql.SQL("({})").format(compose.declared_sql(expression))))
    rows: Any = conn.execute(_GLANCE["used_columns"]).fetchall()
    conn.execute(_GLANCE["drop_view"])
    return tuple(row[0] for row in rows)

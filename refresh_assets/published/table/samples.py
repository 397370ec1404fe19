"""A few rows of each kind of change, as texts, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.load import Row, Samples

SAMPLE_ROWS = 10
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")


def samples_of_table(conn: Connection, target: sql.Identifier, columns: Sequence[str]) -> Samples:
    """Return rows of a table all of whose rows were added."""
    return Samples(added=_sample(conn, "sample_rows", target=target, texts=compose.texts(columns, "target")))


def samples_of_delta(conn: Connection, target: sql.Identifier, key: Sequence[str], columns: Sequence[str]) -> Samples:
    """Return rows of `pg_temp.refresh_delta`, and what the table still holds in their place."""
    keys, delta_key = compose.names(key, "delta"), compose.same_key(key, "target", "delta")
    new, old = compose.texts(columns, "delta"), compose.texts(columns, "target")
    found: dict[str, sql.Composable] = {"target": target, "key": keys, "delta_key": delta_key}
    pairs = _sample(conn, "sample_target", "changed", texts=compose.COMMA.join([old, new]), **found)
    width = len(columns)
    return Samples(
        added=_sample(conn, "sample_delta", "added", texts=new, key=keys),
        changed=[(pair[:width], pair[width:]) for pair in pairs],
        removed=_sample(conn, "sample_target", "removed", texts=old, **found),
    )


def _sample(conn: Connection, statement: str, kind: str = "", **pieces: sql.Composable) -> list[Row]:
    rows: Any = conn.execute(
        _APPLY[statement].format(kind=sql.Literal(kind), limit=sql.Literal(SAMPLE_ROWS), **pieces)
    ).fetchall()
    return list(rows)

"""A look at a table and its history in one snapshot of the database, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import IsolationLevel

from refresh_assets.postgres.connect import Connection, fix_formats, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.standing import Standing
from refresh_assets.published.table.target import Target

_INSPECT = queries("refresh_assets.published.table", "sql/inspect.sql")


@dataclass(frozen=True)
class Inspection:
    """What the table holds and what its last load recorded; None where that load was another job's."""

    rows: int
    repeated_keys: int
    unique_index: str | None
    recorded_rows: int | None
    recorded_staged: int | None
    drift: str | None
    unbumped: tuple[str, ...]


def inspect(conn: Connection, load: Load, *, lock_seconds: float, statement_seconds: float) -> Inspection:
    """Look at the table of a load; waits for locks no longer than the replace does. Raises psycopg.Error."""
    conn.isolation_level = IsolationLevel.REPEATABLE_READ
    conn.read_only = True
    with conn.transaction():
        limit(conn, lock_seconds=lock_seconds, statement_seconds=statement_seconds)
        fix_formats(conn)
        target = Target(conn, load.schema, load.table)
        standing = Standing.read(conn, load)
        last = standing.last
        there = target.exists()
        rows = target.count() if there else 0
        unique_index = target.unique_index()
        return Inspection(
            rows=rows,
            repeated_keys=_repeated_keys(conn, target) if there and not unique_index else 0,
            unique_index=unique_index,
            recorded_rows=last.fingerprint.rows if last else None,
            recorded_staged=last.rows_staged if last else None,
            drift=standing.drift_of(rows),
            unbumped=standing.unbumped,
        )


def _repeated_keys(conn: Connection, target: Target) -> int:
    row: Any = conn.execute(
        _INSPECT["repeated_keys"].format(target=target.name, key=compose.names(target.table.key))
    ).fetchone()
    return int(row[0])

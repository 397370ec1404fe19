"""What a role may do with the tables it needs: those that are there, and those that it has to make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

CHANGE = ("SELECT", "INSERT", "UPDATE", "DELETE")
_CHECK = queries("refresh_assets.postgres", "check.sql")


def lacking_rights(conn: Connection, schema: str, needed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield what the role lacks for the tables of a schema; `needed` are the rights by table.

    Of a table that is absent it needs the right to make it, and of one that is there only those rights.
    """
    there = {table: _one(conn, "there", schema=schema, table=table) for table in needed}
    if any(there.values()) and not _one(conn, "may_use", schema=schema):
        yield f"the right to use schema {schema!r} (GRANT USAGE ON SCHEMA …)"
        return
    for table, oid in there.items():
        if oid is not None:
            lacking = _one(conn, "lacking", oid=oid, rights=list(needed[table]))
            if lacking:
                yield f"{', '.join(lacking)} on {schema}.{table} (GRANT {', '.join(lacking)} ON …)"
    absent = [table for table, oid in there.items() if oid is None]
    if absent and not _one(conn, "may_create", schema=schema):
        yield (
            f"the right to create tables in schema {schema!r} (GRANT USAGE, CREATE ON SCHEMA …), "
            f"which has no {', '.join(absent)}"
        )


def lacking_storage(conn: Connection, schema: str) -> Iterator[str]:
    """Yield what the role lacks for a schema whose tables Dagster makes at once."""
    rows: Any = conn.execute(_CHECK["tables"].format(schema=sql.Literal(schema))).fetchall()
    yield from lacking_rights(conn, schema, {row[0]: CHANGE for row in rows} or {"runs": CHANGE})
    closed = _one(conn, "closed_sequences", schema=schema)
    if closed:
        yield f"USAGE on the sequences {', '.join(closed)} of schema {schema!r} (GRANT USAGE ON ALL SEQUENCES …)"


def may_stage(conn: Connection) -> bool:
    """Tell whether the role may make temporary tables."""
    return bool(_one(conn, "may_stage"))


def _one(conn: Connection, statement: str, **values: Any) -> Any:
    pieces = {name: sql.Literal(value) for name, value in values.items()}
    row = conn.execute(_CHECK[statement].format(**pieces)).fetchone()
    return row[0] if row else None

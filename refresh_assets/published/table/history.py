"""The state of a table's last load and the history of its loads, read and written inside the replace's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from psycopg import sql
from psycopg.types.json import Jsonb

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.job_key import schema_fingerprint, transform_fingerprint
from refresh_assets.published.table.load import Load

# What a refresh does to its own two tables.
TABLES = {"refresh_state": ("SELECT", "INSERT", "UPDATE"), "refresh_loads": ("SELECT", "INSERT", "DELETE")}
# A weekly table reaches this after nineteen years.
LOADS_KEPT = 1000
# For statements that make empty tables.
CREATE_SECONDS = 60.0
# A fingerprint covers every row up to this many, and an even sample of about as many above.
FINGERPRINT_ROWS = 1_000_000

_STATE = queries("refresh_assets.published.table", "sql/state.sql")
_CREATE = queries("refresh_assets.published.table", "sql/create.sql")
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")


@dataclass(frozen=True)
class State:
    """What the last load of a table, by whichever job, left in refresh_state."""

    job_key: str
    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Fingerprint:
    """The sum of the hashes of all rows, or of those whose key's hash the modulus divides."""

    rows: int
    value: Decimal
    modulus: int


@dataclass(frozen=True)
class PastLoad:
    """A row of refresh_loads.

    `file` is the published file's name. `instead_of` is the sha256 of the published file in whose place an earlier one
    was loaded by wish, None for all other loads.
    """

    load_id: int
    loaded_at: datetime
    job_key: str
    rows_staged: int
    fingerprint: Fingerprint
    parts: Mapping[str, Any]
    file: str
    run_id: str | None
    added: int
    changed: int
    removed: int
    seconds: float
    drifted: bool
    shrink_accepted: bool
    instead_of: str | None

    @property
    def rows(self) -> int:
        return self.fingerprint.rows

    @property
    def sha256(self) -> str:
        """The file that was loaded."""
        return str(self.parts.get("input"))


@dataclass(frozen=True)
class Counts:
    """What a load did, in rows."""

    staged: int
    kept: int
    added: int
    changed: int
    removed: int


def create_tables(conn: Connection, schema: str, lock_seconds: float) -> None:
    """Create the schema, refresh_state and refresh_loads where they are absent, in a transaction of its own.

    Raises RefreshError where somebody else's table has one of their names.
    """
    schema_name = sql.Identifier(schema)
    absent = _absent(conn, schema)
    for relation, columns in conn.execute(_CREATE["lacking"].format(schema=sql.Literal(schema))).fetchall():
        raise RefreshError(
            f"{schema}.{relation} is there and has not the columns {columns}, so it is none of ours; rename it, or "
            "name another schema in REFRESH_SCHEMA"
        )
    if not any(absent):
        return
    with conn.transaction():
        limit(conn, lock_seconds=lock_seconds, statement_seconds=lock_seconds + CREATE_SECONDS)
        conn.execute(_CREATE["create_lock"].format(schema=sql.Literal(schema)))
        no_schema, no_state, no_loads, no_wishes = absent
        # Each only where absent: the role may lack the right to create what somebody else made for it.
        if no_schema:
            conn.execute(_CREATE["schema"].format(schema=schema_name))
        if no_state:
            conn.execute(_CREATE["state"].format(schema=schema_name))
        if no_loads:
            conn.execute(_CREATE["loads"].format(schema=schema_name))
            conn.execute(_CREATE["loads_index"].format(schema=schema_name))
        if no_wishes:
            conn.execute(_CREATE["loads_without_wishes"].format(schema=schema_name))


def exists(conn: Connection, schema: str) -> bool:
    """Tell whether refresh_state and refresh_loads are there: before the first load they are not."""
    _no_schema, no_state, no_loads, _no_wishes = _absent(conn, schema)
    return not (no_state or no_loads)


def _absent(conn: Connection, schema: str) -> tuple[bool, bool, bool, bool]:
    row: Any = conn.execute(_CREATE["absent"].format(schema=sql.Literal(schema))).fetchone()
    return cast("tuple[bool, bool, bool, bool]", row)


def try_lock(conn: Connection, schema: str, table: Table) -> bool:
    """Take the table's advisory lock for the open transaction; False where another session holds it."""
    row = conn.execute(_STATE["try_lock"].format(name=sql.Literal(schema + table.lock_suffix))).fetchone()
    return bool(row and row[0])


def read_state(conn: Connection, schema: str, job: str) -> State | None:
    row = conn.execute(_STATE["state"].format(schema=sql.Identifier(schema), job=sql.Literal(job))).fetchone()
    if row is None:
        return None
    job_key, parts = cast("tuple[str, Any]", row)
    # Another job may have left anything there; what is no object has no part in common with ours.
    return State(job_key, parts if isinstance(parts, Mapping) else {})


def last_load(conn: Connection, schema: str, job: str) -> PastLoad | None:
    return next(iter(past_loads(conn, schema, limit=1, job=job)), None)


def past_loads(
    conn: Connection, schema: str, *, limit: int, job: str | None = None, load_id: int | None = None
) -> list[PastLoad]:
    """Return the newest loads, the newest first: of one file, of one number, or of all."""
    conditions: list[sql.Composable] = [compose.TRUE]
    if job is not None:
        conditions.append(sql.SQL("job = {}").format(sql.Literal(job)))
    if load_id is not None:
        conditions.append(sql.SQL("load_id = {}").format(sql.Literal(load_id)))
    rows: Any = conn.execute(
        _STATE["past_loads"].format(
            schema=sql.Identifier(schema), condition=compose.AND.join(conditions), limit=sql.Literal(limit)
        )
    ).fetchall()
    return [_past_load(*row) for row in rows]


def _past_load(  # noqa: PLR0913, PLR0917 - the columns of the query
    load_id: int, loaded_at: datetime, job_key: str, staged: int, kept: int, value: Decimal, modulus: int, *rest: Any
) -> PastLoad:
    return PastLoad(load_id, loaded_at, job_key, staged, Fingerprint(kept, value, modulus), *rest)


def versions_used(conn: Connection, schema: str, job: str) -> list[tuple[str, str, str, str]]:
    """Return what the history has of transform and schema: version and fingerprint of each, once."""
    rows: Any = conn.execute(
        _STATE["versions_used"].format(schema=sql.Identifier(schema), job=sql.Literal(job))
    ).fetchall()
    return list(rows)


def write(
    conn: Connection, load: Load, counts: Counts, fingerprint: Fingerprint, *, drifted: bool
) -> tuple[int, datetime]:
    """Write the state and one row of history; return the load's number and its time."""
    schema, job = sql.Identifier(load.schema), sql.Literal(load.table.file)
    common = {
        "schema": schema,
        "job": job,
        "job_key": sql.Literal(load.job_key),
        "parts": sql.Literal(Jsonb(load.parts)),
    }
    conn.execute(_STATE["write_state"].format(**common))
    row: Any = conn.execute(
        _STATE["write_load"].format(
            **common,
            run_id=sql.Literal(load.run_id),
            rows_staged=sql.Literal(counts.staged),
            rows_kept=sql.Literal(counts.kept),
            added=sql.Literal(counts.added),
            changed=sql.Literal(counts.changed),
            removed=sql.Literal(counts.removed),
            drifted=sql.Literal(drifted),
            shrink_accepted=sql.Literal(load.accept_shrink),
            fingerprint=sql.Literal(fingerprint.value),
            fingerprint_modulus=sql.Literal(fingerprint.modulus),
            transform_fingerprint=sql.Literal(transform_fingerprint(load.table)),
            schema_fingerprint=sql.Literal(schema_fingerprint(load.table)),
            instead_of=sql.Literal(load.instead_of),
        )
    ).fetchone()
    conn.execute(_STATE["prune_loads"].format(schema=schema, job=job, keep=sql.Literal(LOADS_KEPT)))
    return int(row[0]), row[1]


def fingerprint(conn: Connection, schema: str, table: Table, modulus: int) -> Fingerprint:
    """Count the target's rows and fingerprint them, in one pass."""
    columns = [column.name for column in table.columns]
    row: Any = conn.execute(
        _APPLY["fingerprint"].format(
            target=sql.Identifier(schema, table.name),
            sampled=compose.sampled(table.key, modulus),
            row_hash=compose.row_hash(columns),
        )
    ).fetchone()
    return Fingerprint(int(row[0]), Decimal(row[1]), modulus)


def modulus_for(rows: int) -> int:
    """Return the modulus with which a table of so many rows is fingerprinted."""
    return max(1, -(-rows // FINGERPRINT_ROWS))

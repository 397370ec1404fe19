"""The windows' tables: which windows are loaded, how far without a gap, and which of them are stale."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.windows.grid import Grid
from refresh_assets.windows.source import Seen
from refresh_assets.windows.window import Window

JOB = "activity_metrics"
TABLES = (JOB, "window_loads", "window_state")
# For statements that make empty tables.
CREATE_SECONDS = 60.0
_CREATE = queries("refresh_assets.windows", "sql/create.sql")
_STATE = queries("refresh_assets.windows", "sql/state.sql")


@dataclass(frozen=True)
class State:
    """Windows are loaded without a gap from `first` to `marker`, cut by this cron in this time zone.

    `source` is the kind of event log that they were counted from; None in a table of an earlier version.
    """

    first: datetime
    marker: datetime
    cron: str
    timezone: str
    source: str | None


@dataclass(frozen=True)
class WindowLoad:
    """The last load of a window; `mark` stands for what the source held of it then."""

    window: Window
    rows: int
    digest: str
    mark: str
    stale_since: datetime | None
    loaded_at: datetime
    run_id: str | None


def create_tables(conn: Connection, schema: str, lock_seconds: float) -> None:
    """Create the schema and the windows' tables where they are absent, in a transaction of its own.

    A state of an earlier version gets the column that it lacks, where the role may add it.
    """
    if not any(_absent(conn, schema)):
        _complete(conn, schema, lock_seconds)
        return
    name = sql.Identifier(schema)
    with conn.transaction():
        limit(conn, lock_seconds=lock_seconds, statement_seconds=lock_seconds + CREATE_SECONDS)
        conn.execute(_CREATE["create_lock"].format(schema=sql.Literal(schema)))
        # Each only where absent: the role may lack the right to create what somebody else made for it.
        for absent, what in zip(_absent(conn, schema), ("schema", "metrics", "loads", "state"), strict=True):
            if absent:
                conn.execute(_CREATE[what].format(schema=name))


def _complete(conn: Connection, schema: str, lock_seconds: float) -> None:
    there, may_add = _source_column(conn, schema)
    if may_add and not there:
        with conn.transaction():
            limit(conn, lock_seconds=lock_seconds, statement_seconds=lock_seconds + CREATE_SECONDS)
            conn.execute(_CREATE["add_source"].format(schema=sql.Identifier(schema)))


def keeps_source(conn: Connection, schema: str) -> bool:
    """Tell whether the state can say which kind of event log it was loaded from."""
    return _source_column(conn, schema)[0]


def lacks_source(schema: str) -> str:
    """Return what a person should know of a state that cannot."""
    name = sql.Identifier(schema, "window_state").as_string(None)
    return (
        f"{schema}.window_state does not say which kind of event log it was loaded from, and this role may not add the "
        f"column: rows of another log would go unnoticed. Its owner adds it: ALTER TABLE {name} ADD COLUMN source text;"
    )


def _source_column(conn: Connection, schema: str) -> tuple[bool, bool]:
    row: Any = conn.execute(_CREATE["source_column"].format(schema=sql.Literal(schema))).fetchone()
    there, may_add = row
    return there, may_add


def exist(conn: Connection, schema: str) -> bool:
    """Tell whether the windows' tables are there."""
    return not any(_absent(conn, schema))


def _absent(conn: Connection, schema: str) -> Sequence[bool]:
    row: Any = conn.execute(_CREATE["absent"].format(schema=sql.Literal(schema))).fetchone()
    return tuple(row)


def read_state(conn: Connection, schema: str) -> State | None:
    """Return the state, None where no window was ever loaded."""
    query = _STATE["state"].format(schema=sql.Identifier(schema), job=sql.Literal(JOB))
    row: Any = conn.execute(query).fetchone()
    return State(*row) if row else None


def check_same(state: State | None, grid: Grid, source: str, schema: str) -> None:
    """Raise RefreshError where the loaded windows were cut otherwise, or counted from another kind of event log."""
    if state is None:
        return
    if (state.cron, state.timezone) != (grid.cron, grid.timezone):
        raise RefreshError(
            f"the windows in {schema}.window_loads were cut by the cron {state.cron!r} in {state.timezone}, and the "
            f"settings now say {grid.cron!r} in {grid.timezone}; windows that overlap would count events twice. Set "
            f"WINDOW_CRON and the time zone back, or begin anew: {_emptying(schema)}"
        )
    if state.source is not None and state.source != source:
        raise RefreshError(
            f"the windows in {schema}.window_loads were counted from the event log {state.source!r}, and the setting "
            f"WINDOW_SOURCE now says {source!r}; windows of both would stand side by side. Set WINDOW_SOURCE back to "
            f"{state.source!r}, or begin anew: {_emptying(schema)}"
        )


def _emptying(schema: str) -> str:
    names = ", ".join(sql.Identifier(schema, table).as_string(None) for table in TABLES)
    return f"empty the tables of the windows (TRUNCATE {names};)"


def loads(conn: Connection, schema: str, since: datetime, until: datetime) -> list[WindowLoad]:
    """Return the loaded windows that lie in [since, until], in ascending order."""
    query = _STATE["loads"].format(schema=sql.Identifier(schema), since=sql.Literal(since), until=sql.Literal(until))
    found: Any = conn.execute(query).fetchall()
    return [WindowLoad(Window(row[0], row[1]), *row[2:]) for row in found]


def note_late(conn: Connection, schema: str, load: WindowLoad, seen: Seen) -> bool:
    """Mark a window stale where the source holds other events of it than were counted; tell whether it is so.

    A load that was committed since by another run is left as it is.
    """
    differs = mark_of(seen) != load.mark
    if differs or load.stale_since is not None:
        conn.execute(
            _STATE["mark_stale" if differs else "unmark"].format(
                schema=sql.Identifier(schema),
                since=sql.Literal(load.window.since),
                until=sql.Literal(load.window.until),
                source_mark=sql.Literal(load.mark),
            )
        )
    return differs


def mark_of(seen: Seen) -> str:
    """Return what stands for a window's events in our tables: not the number, which could tell what is hidden."""
    return hashlib.sha256(f"{seen.window}\n{seen.events}\n{seen.mark}".encode()).hexdigest()


def now(conn: Connection) -> datetime:
    """Return the database's time."""
    row: Any = conn.execute(_STATE["now"]).fetchone()
    moment: datetime = row[0]
    return moment

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
    """Windows are loaded without a gap from `first` to `marker`, cut by this cron in this time zone."""

    first: datetime
    marker: datetime
    cron: str
    timezone: str


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
    """Create the schema and the windows' tables where they are absent, in a transaction of its own."""
    if not any(_absent(conn, schema)):
        return
    name = sql.Identifier(schema)
    with conn.transaction():
        limit(conn, lock_seconds=lock_seconds, statement_seconds=lock_seconds + CREATE_SECONDS)
        conn.execute(_CREATE["create_lock"].format(schema=sql.Literal(schema)))
        # Each only where absent: the role may lack the right to create what somebody else made for it.
        for absent, what in zip(_absent(conn, schema), ("schema", "metrics", "loads", "state"), strict=True):
            if absent:
                conn.execute(_CREATE[what].format(schema=name))


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


def check_grid(state: State | None, grid: Grid, schema: str) -> None:
    """Raise RefreshError where the loaded windows were cut by another cron or in another time zone."""
    if state is not None and (state.cron, state.timezone) != (grid.cron, grid.timezone):
        raise RefreshError(
            f"the windows in {schema}.window_loads were cut by the cron {state.cron!r} in {state.timezone}, and the "
            f"settings now say {grid.cron!r} in {grid.timezone}; windows that overlap would count events twice. Set "
            "WINDOW_CRON and the time zone back, or begin anew: empty activity_metrics, window_loads and window_state"
        )


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

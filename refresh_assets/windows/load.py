"""Loading windows: each is replaced, and the marker moved, in one transaction under the window's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import errors, sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.windows import session, state
from refresh_assets.windows.clock import wait_until_ended
from refresh_assets.windows.due import Plan, standing_of
from refresh_assets.windows.giving_way import explained, patiently, words
from refresh_assets.windows.source import BrokenLinesError, EventSource, LineCounts, Seen, Staged
from refresh_assets.windows.state import JOB, State
from refresh_assets.windows.suppress import suppress
from refresh_assets.windows.window import Window

# So many windows are counted in one pass over the log, and locked at once: their locks have a place in shared memory.
PASS = 1000
Outcome = Literal["loaded", "unchanged", "locked", "failed"]
WindowGuard = Callable[[Connection, Window], object]
_LOAD = queries("refresh_assets.windows", "sql/load.sql")


@dataclass(frozen=True)
class Done:
    """What became of one window: its rows as published with their digest, or why it was not loaded."""

    window: Window
    outcome: Outcome
    rows: int | None = None
    digest: str | None = None
    reason: str = ""

    def __str__(self) -> str:
        texts = {
            "loaded": f"loaded {self.rows} rows",
            "unchanged": f"unchanged, {self.rows} rows: another run loaded it just now",
            "locked": "locked: another run is loading it; nothing was done",
            "failed": f"failed: {self.reason}",
        }
        return f"{self.window}: {texts[self.outcome]}"


@dataclass
class Result:
    """What became of all windows, in the order in which they were done; what the log said, without its numbers."""

    done: list[Done] = field(default_factory=list)
    lines: LineCounts | None = None
    notes: list[str] = field(default_factory=list)
    standing: State | None = None

    def of(self, outcome: Outcome) -> list[Done]:
        return [done for done in self.done if done.outcome == outcome]


@dataclass(frozen=True)
class Loading:
    """How windows are loaded: `only_due` leaves alone what another run has loaded since; times are seconds.

    `guard` is called at the end of each window's transaction and decides whether it may commit.
    """

    plan: Plan
    source: EventSource
    min_cell: int
    run_id: str | None = None
    only_due: bool = False
    lock_seconds: float = 30
    statement_seconds: float = 3600
    guard: WindowGuard | None = None


def load(conn: Connection, loading: Loading, windows: Sequence[Window], result: Result) -> Iterator[Done]:
    """Load windows on `conn`, oldest first, and yield each as soon as it is committed; `result` gathers them.

    Windows that end within some seconds are waited for; where one ends later by the database's clock, WindowError is
    raised. A window that fails is rolled back alone, and the others are loaded. Where the log cannot be read or the
    database is gone, RefreshError is raised: what was yielded as loaded is so, the other windows are as they were.
    """
    schema = loading.plan.schema
    with explained(f"loading windows into {schema}.activity_metrics"):
        session.prepare(conn, lock_seconds=loading.lock_seconds, statement_seconds=loading.statement_seconds)
        state.create_tables(conn, schema, loading.lock_seconds)
        standing_of(conn, loading.plan)
        keeps_source = state.keeps_source(conn, schema)
        if not keeps_source:
            result.notes.append(state.lacks_source(schema))
        ordered = sorted(set(windows))
        wait_until_ended(conn, ordered)
        for start in range(0, len(ordered), PASS):
            for done in _Pass(
                conn, loading, ordered[start : start + PASS], ordered[0].since, result, keeps_source
            ).run():
                result.done.append(done)
                yield done


@dataclass
class _Pass:
    """One pass over the log."""

    conn: Connection
    loading: Loading
    windows: Sequence[Window]
    first: datetime
    result: Result
    keeps_source: bool

    def run(self) -> Iterator[Done]:
        try:
            free = session.try_locks(self.conn, self.loading.plan.schema, self.windows)
            yield from (Done(window, "locked") for window in _without(self.windows, free))
            ready = self._ready(free)
            yield from ready
            wanted = _without(free, [done.window for done in ready])
            if wanted:
                yield from self._load(wanted)
        finally:
            if not self.conn.closed and not self.conn.broken:
                session.unlock(self.conn)

    def _load(self, windows: Sequence[Window]) -> Iterator[Done]:
        """Count these windows and replace them one by one; those with too many broken lines fail alone."""
        try:
            staged = patiently(self._stage, windows)
        except BrokenLinesError as error:
            yield from (Done(window, "failed", reason=str(error)) for window in error.windows)
            others = _without(windows, error.windows)
            if others:
                yield from self._load(others)
            return
        self.result.lines = _sum(self.result.lines, staged.lines)
        self.result.notes += [note for note in staged.notes if note not in self.result.notes]
        for window in windows:
            yield self._replace(window, staged.seen[window])

    def _ready(self, windows: Sequence[Window]) -> list[Done]:
        """Return those that another run has loaded meanwhile, where only due ones are to be loaded."""
        if not windows or not self.loading.only_due:
            return []
        wanted = set(windows)
        found = state.loads(self.conn, self.loading.plan.schema, windows[0].since, windows[-1].until)
        return [
            Done(load.window, "unchanged", load.rows, load.digest)
            for load in found
            if load.window in wanted and load.stale_since is None
        ]

    def _stage(self, windows: Sequence[Window]) -> Staged:
        """Fill `window_cells` and `window_rows`, in a transaction of their own."""
        with self.conn.transaction():
            for statement in ("drop_stage", "cells", "rows"):
                self.conn.execute(_LOAD[statement])
            staged = self.loading.source.stage(self.conn, windows, lambda _events: None)
            self.conn.execute(_LOAD["analyze_cells"])
            self._check_cells(windows)
            suppress(self.conn, self.loading.min_cell)
            self.conn.execute(_LOAD["rows_index"])
        return staged

    def _check_cells(self, windows: Sequence[Window]) -> None:
        row: Any = self.conn.execute(
            _LOAD["strays"].format(
                sinces=sql.Literal([window.since for window in windows]),
                untils=sql.Literal([window.until for window in windows]),
            )
        ).fetchone()
        if row[0]:
            raise AssertionError("the source counted events outside the windows that it was asked for")

    def _replace(self, window: Window, seen: Seen) -> Done:
        try:
            done, self.result.standing = patiently(self._replace_once, window, seen)
        except psycopg.Error as error:
            # A lock that is waited for in vain would be waited for again with every other window.
            if self.conn.closed or self.conn.broken or isinstance(error, errors.OperationalError):
                raise
            return Done(window, "failed", reason=words(error))
        except RefreshError as error:
            return Done(window, "failed", reason=str(error))
        return done

    def _replace_once(self, window: Window, seen: Seen) -> tuple[Done, State]:
        plan = self.loading.plan
        common = {
            "schema": sql.Identifier(plan.schema),
            "job": sql.Literal(JOB),
            "since": sql.Literal(window.since),
            "until": sql.Literal(window.until),
        }

        def execute(statement: str, **values: Any) -> psycopg.Cursor[tuple[object, ...]]:
            literals = {name: sql.Literal(value) for name, value in values.items()}
            return self.conn.execute(_LOAD[statement].format(**common, **literals))

        with self.conn.transaction():
            execute(
                "begin_state" if self.keeps_source else "begin_state_without_source",
                first=self.first,
                cron=plan.grid.cron,
                timezone=plan.grid.timezone,
                source=plan.source,
            )
            held: Any = execute("hold_state").fetchone()
            state.check_same(State(*held), plan.grid, plan.source, plan.schema)
            execute("delete")
            inserted = execute("insert").rowcount
            rows, digest = _two(execute("digest").fetchone())
            if rows != inserted:
                raise RefreshError(
                    f"{inserted} rows were written and {rows} are there; something removes or hides rows of "
                    f"{plan.schema}.{JOB} as they are written"
                )
            written = execute(
                "write_load",
                rows=rows,
                rows_digest=digest,
                source_mark=state.mark_of(seen),
                run_id=self.loading.run_id,
            )
            if written.rowcount != 1:
                raise RefreshError(f"a window that begins with {window} and ends elsewhere is loaded already")
            advanced: Any = execute("advance").fetchone()
            if self.loading.guard is not None:
                self.loading.guard(self.conn, window)
        return Done(window, "loaded", rows, digest), State(*advanced)


def _without(windows: Iterable[Window], others: Iterable[Window]) -> list[Window]:
    left_out = set(others)
    return [window for window in windows if window not in left_out]


def _two(row: Any) -> tuple[int, str]:
    rows, digest = row
    return rows, digest


def _sum(one: LineCounts | None, other: LineCounts | None) -> LineCounts | None:
    if one is None or other is None:
        return one or other
    return LineCounts(one.blank + other.blank, one.comment + other.comment, one.broken + other.broken)

"""Which windows are due: the missing ones up to now, and those of which events came late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from refresh_assets.postgres.connect import Connection
from refresh_assets.windows import state
from refresh_assets.windows.grid import Grid, oldest
from refresh_assets.windows.source import EventSource
from refresh_assets.windows.state import State, WindowLoad
from refresh_assets.windows.window import Window, text


@dataclass(frozen=True)
class Plan:
    """What is kept up: windows of this grid in this schema.

    `source` is the kind of event log that they are counted from. Without any loaded window those that cover the span
    `bootstrap` are loaded first. A window is looked at for late events until its end is `late` ago.
    """

    schema: str
    grid: Grid
    source: str
    bootstrap: timedelta
    late: timedelta


@dataclass(frozen=True)
class Due:
    """The windows that should be loaded now; `state` is None before the first load."""

    state: State | None
    missing: tuple[Window, ...]
    stale: tuple[Window, ...]
    until: datetime

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(sorted({*self.missing, *self.stale}))

    def __str__(self) -> str:
        if not self.windows:
            return f"already up to date: every window up to {text(self.until)} is loaded"
        parts = []
        if self.missing:
            which = "the first run loads the windows of the last days" if self.state is None else "missing"
            parts.append(f"{which}: {len(self.missing)} from {self.missing[0]} on")
        if self.stale:
            parts.append("events came late: " + ", ".join(map(str, self.stale)))
        return "; ".join(parts)


def due(conn: Connection, plan: Plan, now: datetime) -> Due:
    """Return what is due by the tables as they are. Raises RefreshError as `standing_of` does."""
    standing = standing_of(conn, plan)
    until = plan.grid.last(now)
    since = standing.first if standing else plan.grid.last(max(now - plan.bootstrap, plan.grid.first))
    since = max(since, plan.grid.first)
    if standing is None:
        return Due(None, oldest(plan.grid, since, until), (), until)
    # Those before the first one as well, loaded by hand beyond a gap: events come late for them, too.
    loaded = state.loads(conn, plan.schema, plan.grid.first, max(until, standing.marker))
    known = {load.window for load in loaded}
    # Nothing is missing before it, so that years of loaded windows need not be computed again.
    gapless = since
    for load in loaded:
        gapless = load.window.until if load.window.since == gapless else gapless
    return Due(
        standing,
        tuple(window for window in oldest(plan.grid, gapless, until) if window not in known),
        tuple(load.window for load in loaded if load.stale_since is not None),
        until,
    )


def standing_of(conn: Connection, plan: Plan) -> State | None:
    """Return the state, None before the first load.

    Raises RefreshError where windows were cut otherwise, or counted from another kind of event log.
    """
    standing = state.read_state(conn, plan.schema) if state.exist(conn, plan.schema) else None
    state.check_same(standing, plan.grid, plan.source, plan.schema)
    return standing


def look_for_late_events(conn: Connection, plan: Plan, source: EventSource, now: datetime) -> list[Window]:
    """Mark the windows of which events came late, and return them. Raises RefreshError where it cannot look."""
    if standing_of(conn, plan) is None:
        return []
    recent = state.loads(conn, plan.schema, now - plan.late - _longest(plan, now), now)
    by_window = {load.window: load for load in recent if load.window.until > now - plan.late}
    if not by_window:
        return []
    found = source.look(sorted(by_window))
    return [
        window
        for window, seen in sorted(found.items())
        if window in by_window and state.note_late(conn, plan.schema, by_window[window], seen)
    ]


def stale_windows(conn: Connection, plan: Plan) -> list[WindowLoad]:
    """Return the loads of the windows that are marked stale."""
    if not state.exist(conn, plan.schema):
        return []
    ends = datetime.max.replace(tzinfo=plan.grid.first.tzinfo)
    found = state.loads(conn, plan.schema, plan.grid.first, ends)
    return [load for load in found if load.stale_since is not None]


def _longest(plan: Plan, now: datetime) -> timedelta:
    """Return a span that no window of these days exceeds, so that one which begins before the late ones is found."""
    begins = plan.grid.last(max(now - plan.late, plan.grid.first))
    return max(now - plan.late - begins, timedelta())

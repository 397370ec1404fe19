"""The checks on the metrics, evaluated with each run. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dagster as dg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import masked
from refresh_assets.windows import state
from refresh_assets.windows.desk import Desk
from refresh_assets.windows.due import stale_windows
from refresh_assets.windows.grid import every
from refresh_assets.windows.load import Result
from refresh_assets.windows.source import REPEATED
from refresh_assets.windows.state import WindowLoad
from refresh_assets.windows.window import Window, text

LATE_EVENTS = "late_events"
_SHOWN = 20
_CHECKS = queries("refresh_assets.windows", "sql/checks.sql")


class Check(NamedTuple):
    """A check's name and what it promises."""

    name: str
    description: str


class Verdict(NamedTuple):
    """What a check found; it never holds a number from which a suppressed one could be got."""

    passed: bool
    description: str
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR


CHECKS = (
    Check("rows_unique", "No two rows have the same window, course and kind."),
    Check("no_gap", "Every window from the first to the marker is loaded, and no row belongs to another window."),
    Check("suppression", "Where fewer learners than WINDOW_MIN_CELL stand behind a row its numbers are NULL."),
    Check("counts_agree", "A window's rows agree with what the event log holds of it."),
    Check(LATE_EVENTS, "No events came late for a loaded window; those that did are counted by the next run."),
)


def check_specs(asset: dg.AssetKey, checks: Sequence[Check]) -> list[dg.AssetCheckSpec]:
    return [dg.AssetCheckSpec(check.name, asset=asset, description=check.description) for check in checks]


def results(conn: Connection, asset: dg.AssetKey, desk: Desk, result: Result) -> list[dg.AssetCheckResult]:
    """Evaluate all checks after the windows of a run."""
    schema = sql.Identifier(desk.plan.schema)
    row: Any = conn.execute(
        _CHECKS["broken_rows"].format(schema=schema, min_cell=sql.Literal(desk.min_cell))
    ).fetchone()
    astray, *wrong = row
    verdicts = {
        "rows_unique": _unique(conn, schema),
        "no_gap": _no_gap(conn, desk, astray),
        "suppression": _suppression(desk, *wrong),
        "counts_agree": _counts_agree(conn, desk, result),
        LATE_EVENTS: late_events(stale_windows(conn, desk.plan)),
    }
    return [
        dg.AssetCheckResult(
            passed=found.passed,
            asset_key=asset,
            check_name=name,
            severity=found.severity,
            description=found.description,
        )
        for name, found in verdicts.items()
    ]


def late_events(stale: Sequence[WindowLoad]) -> Verdict:
    """Say which windows are stale."""
    if not stale:
        return _passed("no loaded window is stale")
    shown = ", ".join(str(load.window) for load in stale[:_SHOWN])
    return Verdict(
        False,  # noqa: FBT003
        f"events came late for {len(stale)} windows, which the next run computes again: {shown}",
        dg.AssetCheckSeverity.WARN,
    )


def _unique(conn: Connection, schema: sql.Identifier) -> Verdict:
    row: Any = conn.execute(_CHECKS["repeated"].format(schema=schema)).fetchone()
    return Verdict(row[0] == 0, f"{row[0]} windows, courses and kinds stand in more than one row")


def _no_gap(conn: Connection, desk: Desk, astray: int) -> Verdict:
    plan = desk.plan
    standing = state.read_state(conn, plan.schema)
    if standing is None:
        return Verdict(astray == 0, f"no window is loaded; {astray} rows belong to none")
    loaded = {load.window for load in state.loads(conn, plan.schema, standing.first, standing.marker)}
    missing = [window for window in every(plan.grid, standing.first, standing.marker) if window not in loaded]
    span = f"from {text(standing.first)} to {text(standing.marker)}"
    if missing or astray:
        return Verdict(
            False,  # noqa: FBT003
            f"{span} {len(missing)} windows are missing{_first(missing)}; {astray} rows belong to no loaded window",
        )
    return _passed(f"{len(loaded)} windows {span} without a gap")


def _suppression(desk: Desk, shown_and_flagged: int, hidden_without_flag: int, small: int) -> Verdict:
    wrong = shown_and_flagged + hidden_without_flag + small
    if not wrong:
        return _passed("every row with too few learners is hidden and flagged")
    return Verdict(
        False,  # noqa: FBT003
        f"{wrong} rows show what should be hidden, or lack their numbers or their flag; WINDOW_MIN_CELL is "
        f"{desk.min_cell}: load the windows again that were loaded with another",
    )


def _counts_agree(conn: Connection, desk: Desk, result: Result) -> Verdict:
    """Compare the last window of this run with the log, unless its events are not those that were counted."""
    loaded = result.of("loaded")
    if not loaded:
        return _passed("this run loaded no window, so none was compared")
    window = loaded[-1].window
    try:
        seen = desk.source.look([window]).get(window)
    except RefreshError as error:
        warning = dg.AssetCheckSeverity.WARN
        return Verdict(False, f"{window} was not compared with the log: {masked(error)}", warning)  # noqa: FBT003
    if seen is None:
        return _passed("the log does not tell how many events a window has without reading it whole")
    (load,) = state.loads(conn, desk.plan.schema, window.since, window.until)
    if state.mark_of(seen) != load.mark:
        return _passed(f"events came late for {window} while it was loaded, so it was not compared")
    shown, hidden = _sample(conn, desk, window)
    exact = not hidden and REPEATED not in result.notes
    agrees = shown == seen.events if exact else shown + hidden <= seen.events
    return Verdict(agrees, f"the rows of {window} {'agree' if agrees else 'do not agree'} with the log")


def _sample(conn: Connection, desk: Desk, window: Window) -> tuple[int, int]:
    row: Any = conn.execute(
        _CHECKS["sample"].format(
            schema=sql.Identifier(desk.plan.schema),
            since=sql.Literal(window.since),
            until=sql.Literal(window.until),
        )
    ).fetchone()
    return row[0], row[1]


def _first(windows: Sequence[Window]) -> str:
    return f", the first {windows[0]}" if windows else ""


def _passed(description: str) -> Verdict:
    return Verdict(True, description)  # noqa: FBT003

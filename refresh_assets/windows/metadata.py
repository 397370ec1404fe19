"""What the windows tell in the Dagster UI. Upper floor: imports dagster."""

from __future__ import annotations

from typing import Any

import dagster as dg

from refresh_assets.alerts.trouble import COMMAND
from refresh_assets.windows.source import EventSource
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window, text

_COLUMNS = (
    ("since", "timestamptz", "begin of the window, which belongs to it"),
    ("until", "timestamptz", "end of the window, which does not"),
    ("course", "text", "the course"),
    ("kind", "text", "the kind of activity"),
    ("events", "bigint", "number of events; NULL where suppressed"),
    ("learners", "bigint", "number of distinct learners; NULL where suppressed"),
    ("first_event", "timestamptz", "the earliest event; NULL where suppressed"),
    ("last_event", "timestamptz", "the latest event; NULL where suppressed"),
    ("suppressed", "boolean", "whether the numbers are hidden, because few learners stand behind them"),
)
_NULLABLE = ("events", "learners", "first_event", "last_event")


def of_definition() -> dict[str, Any]:
    """Return the metadata that the asset has, whatever its runs do."""
    columns = [
        dg.TableColumn(name, kind, description, dg.TableColumnConstraints(nullable=name in _NULLABLE))
        for name, kind, description in _COLUMNS
    ]
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "key": "since, until, course, kind",
        COMMAND: "refresh-assets windows run",
    }


def of_window(window: Window, outcome: str, rows: int | None, *, reason: str = "") -> dict[str, Any]:
    """Return what became of a window; never a total, from which a hidden number could be got."""
    told: dict[str, Any] = {
        "outcome": outcome,
        "window": str(window),
        "since": text(window.since),
        "until": text(window.until),
        "dagster/partition_row_count": rows,
        "reason": reason or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def of_table(schema: str, source: EventSource, upstream: dg.AssetKey) -> dict[str, Any]:
    """Return where the rows stand, and which columns of the event log they come from."""
    lineage = {
        column: [dg.TableColumnDep(upstream, name) for name in names]
        for column, names in source.column_dependencies.items()
    }
    return {
        "dagster/table_name": f"{schema}.{JOB}",
        "dagster/column_lineage": dg.TableColumnLineage(lineage),
        "source": source.name,
    }

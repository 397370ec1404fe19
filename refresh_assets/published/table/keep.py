"""Which of the published rows the filter keeps, and how many rows have each of its column's values."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.csv_file.locate import first_records
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import RowFilter
from refresh_assets.published.table.load import FilterCount, Load
from refresh_assets.settings import BLANKS

# Told to people; more would fill the memory where a column has a value of its own in every row.
VALUES_COUNTED = 100
BYTES_LOOKED_AT = 1 << 18
_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")


@dataclass(frozen=True)
class Kept:
    """How many of the published rows are kept, and the most frequent values of the filter's column."""

    rows: int
    filter_counts: tuple[FilterCount, ...]


def keeps(load: Load) -> sql.Composable:
    """Return the condition that a row meets if the filter keeps it; for a value that is NULL it is NULL."""
    if load.table.filter is None:
        return compose.TRUE
    found, values = filter_value(load.table.filter), load.allowed or ()
    # Nearly all are found as they are allowed, and need not be trimmed.
    return sql.SQL("({} OR {})").format(
        compose.among(found, [value for value in values if value == value.strip(BLANKS)]),
        compose.among(compose.trimmed(found), values),
    )


def seems_to_leave_out(load: Load) -> bool:
    """Tell whether the filter leaves out any of the file's first rows: a guess of the rest, and no more than that."""
    if load.table.filter is None:
        return False
    place, values = load.header.index(load.table.filter.column), load.allowed or ()
    # A file that cannot be read is told of by whoever reads it whole.
    with contextlib.suppress(OSError):
        for record in first_records(load.path, load.layout, BYTES_LOOKED_AT):
            found = record.values[place] if place < len(record.values) else None
            if found is None or found.strip(BLANKS) not in values:
                return True
    return False


def count_kept(conn: Connection, load: Load, table: sql.Identifier) -> Kept:
    """Count the published rows, which stand in the table, by the values of the filter's column."""
    if load.table.filter is None:
        return Kept(load.rows, ())
    spellings = _STAGE["spellings"].format(table=table, found=filter_value(load.table.filter))
    return kept_of(conn, load, spellings)


def kept_of(conn: Connection, load: Load, spellings: sql.Composable) -> Kept:
    """Sum up the numbers of `rows` by what was `found` in the filter's column."""
    rows: list[Any] = conn.execute(
        _STAGE["count_values"].format(
            spellings=spellings,
            trimmed=compose.trimmed(sql.Identifier("found")),
            allowed=allowed(load),
            most=sql.Literal(VALUES_COUNTED),
        )
    ).fetchall()
    counts = tuple(FilterCount(value, count, kept) for value, count, kept, _ in rows)
    return Kept((rows[0][3] or 0) if rows else 0, counts)


def allowed(load: Load) -> sql.Literal:
    return sql.Literal(list(load.allowed or ()))


def filter_value(row_filter: RowFilter) -> sql.Composed:
    return compose.as_bytes(sql.Identifier(row_filter.column))

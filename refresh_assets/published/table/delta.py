"""What differs between the staged rows and the table, found in one pass and kept in `pg_temp.refresh_delta`."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table.parts import Pages, can_be_read_in_parts, count_pages, count_parts, split
from refresh_assets.published.table.stage import Source

# Where more than one row in four finds no partner in its part, the two are not in one order.
MOST_APART = 4
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")
Pieces = dict[str, sql.Composable]


def find_delta(conn: Connection, source: Source, pieces: Pieces, *, keyed: bool) -> None:
    """Fill `pg_temp.refresh_delta`: a row for each key that was added, changed or removed.

    `pieces` are those of the statement `compare`, over the whole source and target, and `delta_key`, which finds a row
    of the delta in the target; `keyed` tells that no key stands in two rows of the target. Two large tables are
    compared part by part, since both stand about in the order of the file: joined whole they would be written to disk
    and read again.
    """
    parts = _parts(conn, source, pieces) if keyed and can_be_read_in_parts(conn) else 1
    if parts > 1 and _compare_parts(conn, source, pieces, parts):
        apart = pieces | {
            "source": sql.Identifier("pg_temp", "refresh_parts"),
            "keep": _APPLY["added_apart"],
            "target": _APPLY["removed_apart"].format(**pieces),
        }
        conn.execute(_APPLY["parts_together"].format(compare=_APPLY["compare"].format(**apart)))
    else:
        conn.execute(_APPLY["delta"].format(compare=_APPLY["compare"].format(**pieces)))


def _parts(conn: Connection, source: Source, pieces: Pieces) -> int:
    pages = count_pages(conn, pieces["target"])
    return count_parts(max(pages, count_pages(conn, source.name))) if pages else 1


def _compare_parts(conn: Connection, source: Source, pieces: Pieces, parts: int) -> bool:
    """Compare part by part; tell whether that was worth while, else nothing is kept of it."""
    sources = split(count_pages(conn, source.name), parts)
    targets = split(count_pages(conn, pieces["target"]), parts)
    for number, (source_pages, target_pages) in enumerate(zip(sources, targets, strict=True), start=1):
        part = pieces | {
            "keep": _of_pages("source_part", source_pages, keep=pieces["keep"]),
            "target": _of_pages("target_part", target_pages, target=pieces["target"]),
        }
        statement = _APPLY["first_part" if number == 1 else "next_part"]
        conn.execute(statement.format(compare=_APPLY["compare"].format(**part)))
        row: Any = conn.execute(_APPLY["apart"]).fetchone()
        if row[0] * MOST_APART > source.rows * number // parts * 2:
            conn.execute(_APPLY["forget_parts"])
            return False
    return True


def _of_pages(statement: str, pages: Pages, **pieces: sql.Composable) -> sql.Composed:
    return _APPLY[statement].format(first=pages.first, behind=pages.behind, **pieces)

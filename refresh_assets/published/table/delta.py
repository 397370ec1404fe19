"""What differs between the staged rows and the table, found in one pass and kept in `pg_temp.refresh_delta`.

Two large tables are compared part by part, since both stand about in the order of the file: joined whole they would be
written to disk and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table.parts import Pages, can_be_read_in_parts, count_pages, count_parts, split
from refresh_assets.published.table.stage import Source

# Where one row in four found no partner in its part, of both sides together one in two, they are not in one order; nor
# is more to be set aside for the end than a quarter of all.
MOST_APART = 4
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")
Pieces = dict[str, sql.Composable]


def find_delta(conn: Connection, source: Source, pieces: Pieces, *, keyed: bool) -> None:
    """Fill `pg_temp.refresh_delta`: a row for each key that was added, changed or removed.

    `pieces` are those of the statement `compare`, over the whole source and target, and `delta_key`, which finds a row
    of the delta in the target; `keyed` tells that no key stands in two rows of the target.
    """
    parts = _parts(conn, source, pieces) if keyed and can_be_read_in_parts(conn) else 1
    if parts == 1 or not _compare_parts(conn, source, pieces, parts):
        conn.execute(_APPLY["delta"].format(compare=_APPLY["compare"].format(**pieces)))


def _parts(conn: Connection, source: Source, pieces: Pieces) -> int:
    pages = count_pages(conn, pieces["target"])
    return count_parts(max(pages, count_pages(conn, source.name))) if pages else 1


def _compare_parts(conn: Connection, source: Source, pieces: Pieces, parts: int) -> bool:
    """Compare part by part; tell whether that was worth while, else nothing is kept of it."""
    comparison = PartwiseComparison(conn, pieces)
    sources = split(count_pages(conn, source.name), parts)
    targets = split(count_pages(conn, pieces["target"]), parts)
    for number, (source_pages, target_pages) in enumerate(zip(sources, targets, strict=True), start=1):
        comparison.compare(_of_pages("source_part", source_pages, keep=pieces["keep"]), target_pages)
        if not comparison.in_one_order(source.rows * number // parts, source.rows):
            conn.execute(_APPLY["forget_parts"])
            return False
    comparison.finish()
    return True


@dataclass
class PartwiseComparison:
    """Parts of the source compared with those parts of the target where most of their rows must be.

    What found no partner there meets the others that found none later. `pieces` are those of `find_delta`.
    """

    conn: Connection
    pieces: Pieces
    _apart: int = field(init=False, default=0)
    """How many rows of both sides have no partner yet."""

    def __post_init__(self) -> None:
        self.conn.execute(_APPLY["no_parts"].format(compare=_APPLY["compare"].format(**self.pieces)))

    def compare(self, keep: sql.Composable, pages: Pages) -> None:
        """Compare the source's rows that meet the condition `keep` with the target's on these pages."""
        part = self.pieces | {
            "keep": keep,
            "target": _of_pages("target_part", pages, target=self.pieces["target"]),
        }
        statement = _APPLY["part"].format(compare=_APPLY["compare"].format(**part))
        row: Any = self.conn.execute(statement).fetchone()
        self._apart += row[0]

    def in_one_order(self, rows: int, all_rows: int) -> bool:
        """Tell whether most of the source's rows, so many of which were compared out of all, have their partners."""
        most = max(2 * rows, all_rows) // MOST_APART
        if self._apart > most:
            # Where the file has grown or shrunk in one place, all rows behind it are a little off.
            self._meet()
            row: Any = self.conn.execute(_APPLY["apart"]).fetchone()
            self._apart = row[0]
        return self._apart <= most

    def finish(self) -> None:
        """Fill `pg_temp.refresh_delta`."""
        self._meet()
        self.conn.execute(_APPLY["parts_are_delta"])

    def _meet(self) -> None:
        """Let those meet that were in different parts."""
        apart = self.pieces | {
            "source": sql.Identifier("pg_temp", "refresh_parts"),
            "keep": _APPLY["added_apart"],
            "target": _APPLY["removed_apart"].format(**self.pieces),
        }
        self.conn.execute(_APPLY["parts_together"].format(compare=_APPLY["compare"].format(**apart)))
        self.conn.execute(_APPLY["forget_parts"])
        self.conn.execute(_APPLY["met_are_parts"])


def _of_pages(statement: str, pages: Pages, **pieces: sql.Composable) -> sql.Composed:
    return _APPLY[statement].format(first=pages.first, behind=pages.behind, **pieces)

"""A table taken in parts of some pages each, so that what is done with one part stays in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.csv_file.dialect import Cut, Layout

# 160 MB: the stage with one part stays in `temp_buffers`, the hash table over it in what `sort_memory` allows, what is
# sorted of it in `part_memory`. An index that is filled in smaller parts is gone through more often.
PART_PAGES = 20_000
PAGE_BYTES = 8192
# What a row takes in a page beside its values, which take about what they take in the file.
ROW_BYTES = 28
# Postgres 14 was the first to read a part of a table alone.
TID_RANGE_SCANS = 140000
# Above every page: rows that came behind the pages counted belong to the last part.
_BEHIND_ALL = 2**32 - 2
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")


@dataclass(frozen=True)
class Pages:
    """A span of a table's pages, half open; `first` and `behind` are the ctids at its bounds."""

    begin: int
    end: int

    @property
    def first(self) -> sql.Literal:
        return sql.Literal(f"({self.begin},0)")

    @property
    def behind(self) -> sql.Literal:
        return sql.Literal(f"({self.end},0)")


@dataclass(frozen=True)
class Piece:
    """A part of a file: `size` bytes, up to the byte `end`, None for the file's end; and the table's part beside it."""

    size: int
    end: int | None
    pages: Pages


ALL_PAGES = Pages(0, _BEHIND_ALL)


def count_pages(conn: Connection, table: sql.Composable) -> int:
    """Return how many pages a table has itself; one that is partitioned has none."""
    row: Any = conn.execute(_APPLY["pages"].format(table=sql.Literal(table.as_string(conn)))).fetchone()
    return int(row[0])


def can_be_read_in_parts(conn: Connection) -> bool:
    return conn.info.server_version >= TID_RANGE_SCANS


def count_parts(pages: int) -> int:
    """Return into how many parts a table of so many pages is taken, the same for every purpose."""
    return max(1, -(-pages // PART_PAGES))


def split(pages: int, parts: int) -> list[Pages]:
    """Return `parts` spans that together hold every row of a table of `pages` pages, each row once."""
    return _spans([pages * part // parts for part in range(parts)])


def pieces_of(layout: Layout, pages: int) -> list[Piece]:
    """Return a file in pieces, each with the pages where a table of `pages` pages in the file's order has its rows."""
    begin, end = Cut(layout.data_offset, 0), Cut(layout.bytes, layout.rows)
    # What the rows before a cut take in a table.
    sizes = [cut.offset - begin.offset + ROW_BYTES * cut.rows for cut in (*layout.cuts, end)]
    parts = count_parts(max(pages, sizes[-1] // PAGE_BYTES))
    places = [bisect_right(sizes, sizes[-1] * part // parts) for part in range(1, parts)]
    cuts = list(dict.fromkeys(place - 1 for place in places if place))
    spans = _spans([0, *(pages * sizes[place] // sizes[-1] for place in cuts)])
    bounds = [begin, *(layout.cuts[place] for place in cuts), end]
    return [
        Piece(until.offset - since.offset, None if until is end else until.offset, span)
        for since, until, span in zip(bounds, bounds[1:], spans, strict=False)
    ]


def _spans(bounds: Sequence[int]) -> list[Pages]:
    return [Pages(begin, end) for begin, end in zip(bounds, [*bounds[1:], _BEHIND_ALL], strict=True)]

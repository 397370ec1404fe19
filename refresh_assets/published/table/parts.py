"""A table taken in parts of some pages each, so that what is done with one part stays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

# 160 MB: a stage with one part stays in `temp_buffers`, and a hash table over it, or what is sorted of it, in what is
# asked for. An index that is filled in smaller parts is gone through more often.
PART_PAGES = 20_000
PAGE_BYTES = 8192
PART_BYTES = PART_PAGES * PAGE_BYTES
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


ALL_PAGES = Pages(0, _BEHIND_ALL)


def count_pages(conn: Connection, table: sql.Composable) -> int:
    """Return how many pages a table, which is there, has itself; one that is partitioned has none."""
    row: Any = conn.execute(_APPLY["pages"].format(table=sql.Literal(table.as_string(conn)))).fetchone()
    return int(row[0])


def can_be_read_in_parts(conn: Connection) -> bool:
    return conn.info.server_version >= TID_RANGE_SCANS


def count_parts(pages: int) -> int:
    """Return into how many parts a table of so many pages is taken, the same for every purpose."""
    return max(1, -(-pages // PART_PAGES))


def split(pages: int, parts: int) -> list[Pages]:
    """Return `parts` spans that together hold every row of a table of `pages` pages, each row once."""
    return spans([pages * part // parts for part in range(parts)])


def spans(bounds: Sequence[int]) -> list[Pages]:
    """Return a span from each bound to the next, the last one without an end."""
    return [Pages(begin, end) for begin, end in zip(bounds, [*bounds[1:], _BEHIND_ALL], strict=True)]

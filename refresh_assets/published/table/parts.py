"""A table taken in parts of some pages each, so that what is done with one part stays in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

# 160 MB: the hash table over one part stays in the memory that `sort_memory` allows. What is sorted of it does not,
# and yet is written once, where an index that is filled in smaller parts is gone through more often.
PART_PAGES = 20_000
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
    bounds = [pages * part // parts for part in range(parts)]
    return [Pages(begin, end) for begin, end in zip(bounds, [*bounds[1:], _BEHIND_ALL], strict=True)]

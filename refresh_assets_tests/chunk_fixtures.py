"""A file of 1,500 rows that goes chunk by chunk, and the table that holds them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.table.declaration import Table
from refresh_assets_tests.published_fixtures import SHELF, Desk, by_small_chunks

Rows = list[tuple[str, ...]]
COLUMNS = ("id", "title", "note", "kind")
ROWS: Rows = [(str(n), f"title {n}", "x" * 100, "open" if n % 3 else " free ") for n in range(1, 1501)]
STAGED = "SELECT count(*) FROM pg_temp.refresh_stage"


@pytest.fixture
def small_chunks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    by_small_chunks(desk, monkeypatch)


def with_row(number: int, **values: str) -> Rows:
    """Return the rows with other values in the one that has this number."""
    rows = list(ROWS)
    rows[number - 1] = tuple(values.get(name, value) for name, value in zip(COLUMNS, rows[number - 1], strict=True))
    return rows


def staged_at_the_end(desk: Desk, rows: Rows, table: Table = SHELF, **changes: Any) -> int:
    """Load the rows; return how many of them stand on the stage when all is done."""
    seen: list[int] = []

    def look(conn: psycopg.Connection[Any]) -> None:
        seen.extend(conn.execute(STAGED).fetchone() or ())

    desk.run(rows, table, guard=look, **changes)
    return seen[0]


def refused(desk: Desk, content: Rows, words: str, **changes: Any) -> None:
    """Show that a load over what is there is refused in these words, and that nothing changed."""
    before = desk.picture("shelf")
    with pytest.raises(RefreshError, match=words):
        desk.run(content, SHELF, **changes)
    assert desk.picture("shelf") == before


def fill(desk: Desk, table: Table = SHELF) -> None:
    """Load the rows, and give back the pages that the server took in advance: of a small table they are half of it."""
    desk.run(ROWS, table)
    desk.admin.execute("VACUUM etl.shelf")


def empty(desk: Desk) -> None:
    """Leave the table as somebody else makes it: with its key and with no row."""
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.shelf (id int PRIMARY KEY, title text NOT NULL, note text, kind text)")

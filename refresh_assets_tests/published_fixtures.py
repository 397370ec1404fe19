"""A published file, its declaration and its load into a database of its own, without Dagster."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as altered
from pathlib import Path
from typing import Any

import psycopg
import pytest

from refresh_assets.postgres.connect import connect
from refresh_assets.published.csv_file import dialect
from refresh_assets.published.csv_file.dialect import scan
from refresh_assets.published.csv_file.file_format import BLOCK
from refresh_assets.published.table import parts
from refresh_assets.published.table.declaration import Column, RowFilter, Table
from refresh_assets.published.table.load import Load, Result
from refresh_assets.published.table.replace import replace
from refresh_assets.settings import PostgresSettings

BOOKS = Table(
    name="books",
    file="books.csv",
    key=("id",),
    columns=(
        Column("id", "integer", nullable=False),
        Column("title", "text", nullable=False),
        Column("note", "text"),
    ),
)
SHELF = Table(
    name="shelf",
    file="books.csv",
    key=("id",),
    columns=(*BOOKS.columns, Column("kind", "text")),
    filter=RowFilter("kind", values=("open", "free")),
)
ROWS = [("1", "Tides", ""), ("2", "Dunes", "worn"), ("3", "Marsh", ""), ("4", "Heath", "")]


def csv_text(rows: Sequence[Sequence[str]], header: Sequence[str] = ("id", "title", "note")) -> str:
    """Return rows as CSV; an empty text is a bare empty field, which is NULL."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


@dataclass
class Desk:
    """A database and a folder: publishes files and loads them."""

    settings: PostgresSettings
    folder: Path
    admin: psycopg.Connection[Any]
    block_size: int = BLOCK
    """Bytes in which files are scanned: a file can be cut once in each of them."""

    def load(self, content: str | bytes | Sequence[Sequence[str]], table: Table = BOOKS, **changes: Any) -> Load:
        """Return the load of a file with this content, promised as it is."""
        if not isinstance(content, (str, bytes)):
            content = csv_text(content, [column.name for column in table.published])
        path = self.folder / table.file
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        layout = scan(path, table.file, block_size=self.block_size)
        allowed = table.filter.values if table.filter else None
        return altered(Load(table, "etl", path, layout, layout.sha256, layout.rows, allowed), **changes)

    def run(self, content: str | bytes | Sequence[Sequence[str]], table: Table = BOOKS, **changes: Any) -> Result:
        """Load a file and return what came of it."""
        with connect(self.settings, "test") as conn:
            return replace(conn, self.load(content, table, **changes), lock_seconds=2)

    def rows(self, table: str = "etl.books") -> list[tuple[Any, ...]]:
        return self.admin.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()

    def value(self, query: str) -> Any:
        row = self.admin.execute(query).fetchone()
        return row[0] if row else None

    def picture(self, table: str = "books") -> Any:
        """Return everything that a failed refresh must leave as it is, down to the versions of the rows."""
        return [
            self.admin.execute(query).fetchall()
            for query in (
                f"SELECT xmin::text, ctid::text, {table}.* FROM etl.{table} ORDER BY 1, 2",
                "SELECT * FROM etl.refresh_state",
                "SELECT * FROM etl.refresh_loads",
            )
        ]


def by_small_chunks(desk: Desk, monkeypatch: pytest.MonkeyPatch, pages: int = 12) -> None:
    """Let small files be sent chunk by chunk, in chunks for so many pages of a table."""
    monkeypatch.setattr(parts, "PART_PAGES", pages)
    monkeypatch.setattr(dialect, "CUT_BYTES", 1)
    desk.block_size = 256


@pytest.fixture
def desk(database: dict[str, str], tmp_path: Path) -> Iterator[Desk]:
    settings = PostgresSettings(
        database["PGHOST"],
        int(database["PGPORT"]),
        database["PGUSER"],
        database["PGDATABASE"],
        database["PGPASSWORD"],
    )
    with connect(settings, "test admin") as admin:
        yield Desk(settings, tmp_path, admin)

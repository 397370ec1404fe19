"""The rows that a server's complaint is about are found again in the file, with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from refresh_assets.published.csv_file.dialect import Layout, scan
from refresh_assets.published.csv_file.locate import (
    ROWS_PER_KEY,
    Record,
    first_wrong_width,
    record_at_copy_line,
    records,
    records_with_keys,
)

File = tuple[Path, Layout]
# Newlines of every kind in quotes, also in the first row, where the server does not know the file's kind yet.
ROWS = [
    '"a\nb\rc\r\nd","x"',
    '1,""',
    ',"say ""so"""',
    '"\n\n","\r\r"',
    '"\r\n","\r\n"',
    "é,東🐟",
    "\\.,\\",
    '"""","\\."',
]


def published(path: Path, rows: list[str], end: str = "\n", header: str = "one,two") -> File:
    path.write_bytes(end.join([header, *rows, ""]).encode())
    return path, scan(path, "things.csv")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "published.csv"


@pytest.fixture
def connection(database: dict[str, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        host=database["PGHOST"],
        port=database["PGPORT"],
        user=database["PGUSER"],
        password=database["PGPASSWORD"],
        dbname=database["PGDATABASE"],
        autocommit=True,
        connect_timeout=30,
    ) as opened:
        opened.execute("CREATE TEMPORARY TABLE stage (one text, two text)")
        yield opened


def copy(connection: psycopg.Connection, file: File) -> None:
    path, layout = file
    with connection.cursor().copy("COPY stage FROM STDIN (FORMAT csv)") as copying:
        copying.write(path.read_bytes()[layout.data_offset :])


def copy_line(connection: psycopg.Connection, file: File) -> int:
    """Return the line in the server's complaint."""
    with pytest.raises(psycopg.Error) as caught:
        copy(connection, file)
    found = re.search(r"line (\d+)", caught.value.diag.context or "")
    assert found
    return int(found[1])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_are_read_as_the_server_reads_them(path: Path, connection: psycopg.Connection, end: str) -> None:
    file = published(path, ROWS, end)
    copy(connection, file)
    loaded = connection.execute("SELECT one, two FROM stage ORDER BY ctid").fetchall()
    assert [record.values for record in records(*file)] == loaded


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("spoilt", range(len(ROWS)))
def test_the_servers_line_leads_to_the_row(path: Path, connection: psycopg.Connection, end: str, spoilt: int) -> None:
    rows = [row + ",too much" if i == spoilt else row for i, row in enumerate(ROWS)]
    file = published(path, rows, end)
    found = record_at_copy_line(*file, copy_line(connection, file))
    assert found == list(records(*file))[spoilt]
    assert found == first_wrong_width(*file)


def test_a_line_behind_the_last_row_leads_nowhere(path: Path) -> None:
    assert record_at_copy_line(*published(path, ["1,2"]), 2) is None


def test_lines_are_those_of_the_published_file(path: Path) -> None:
    file = published(path, ['1,"x\ny"', "2,z"], header='one,"two\nthree"')
    assert [(record.line, record.end_line) for record in records(*file)] == [(3, 4), (5, 5)]


def test_in_files_with_cr_alone_a_cr_ends_a_line(path: Path) -> None:
    file = published(path, ['1,"x\ry\nz"', "2,z"], end="\r")
    assert [(record.line, record.end_line) for record in records(*file)] == [(2, 3), (4, 4)]


def test_a_row_over_several_lines_says_so() -> None:
    assert Record(3, 5, ()).place == "line 3 (the row ends on line 5)"
    assert Record(3, 3, ()).place == "line 3"


def test_bare_empty_is_null_and_quoted_empty_is_empty(path: Path) -> None:
    assert [record.values for record in records(*published(path, [',""', '"",']))] == [(None, ""), ("", None)]


@pytest.mark.parametrize(("row", "width"), [("1", 1), ("1,2,", 3), ('"1,2"', 1)])
def test_the_first_row_of_another_width_is_found(path: Path, row: str, width: int) -> None:
    found = first_wrong_width(*published(path, ['"1,1",2', row, "1"]))
    assert found is not None
    assert (found.line, len(found.values)) == (3, width)


def test_rows_are_found_by_a_key_that_is_spelt_otherwise(path: Path) -> None:
    file = published(path, ["AB,1", "cd,2", "ab,3", "ef,4"])
    found = records_with_keys(*file, [0], [("ab",), ("xy",)], lambda key: tuple(str(part).lower() for part in key))
    assert {key: [record.line for record in rows] for key, rows in found.items()} == {("ab",): [2, 4]}


def test_rows_are_found_by_a_key_of_several_columns(path: Path) -> None:
    file = published(path, ["a,1", "a,2", "a,1", "a"])
    found = records_with_keys(*file, [1, 0], [("1", "a")])
    assert [record.line for record in found["1", "a"]] == [2, 4]


def test_a_key_that_cannot_be_read_is_taken_for_another_one(path: Path) -> None:
    file = published(path, ["0x1F,a", "007,b", "7,c"])
    found = records_with_keys(*file, [0], [("7",)], lambda key: int(key[0] or 0))
    assert [record.line for record in found["7",]] == [3, 4]


def test_a_key_in_very_many_rows_keeps_the_first_of_them(path: Path) -> None:
    found = records_with_keys(*published(path, ["a,1"] * 1000), [0], [("a",)])
    assert [record.line for record in found["a",]] == list(range(2, 2 + ROWS_PER_KEY))

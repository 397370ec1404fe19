"""A row that the server does not take is named by file, line, column and value; then nothing has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as altered
from typing import Any

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, SHELF, Desk

TYPED = Table(
    "books",
    "books.csv",
    ("id",),
    (
        Column("id", "uuid", nullable=False),
        Column("pages", "smallint"),
        Column("bought", "date"),
        Column("code", "varchar(3)"),
    ),
)
IDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(10)]


def refused(
    desk: Desk, match: str, content: str | bytes | Sequence[Sequence[str]], table: Table = BOOKS, **changes: Any
) -> None:
    desk.run(ROWS)
    before = desk.picture()
    with pytest.raises(RefreshError, match=match):
        desk.run(content, table, **changes)
    assert desk.picture() == before


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (("bad", "1", "", ""), r"^books\.csv: line 3: column id: 'bad' is no uuid"),
        ((IDS[1], "1.5", "", ""), r"line 3: column pages: '1\.5' is no smallint"),
        ((IDS[1], "70000", "", ""), r"line 3: column pages: '70000' is no smallint"),
        ((IDS[1], "", "2026-02-30", ""), r"line 3: column bought: '2026-02-30' is no date"),
        ((IDS[1], "", "", "abcd"), r"line 3: column code: 'abcd' is no varchar\(3\)"),
        (("", "", "", ""), r"line 3: column id: empty, which is NULL; it must have a value"),
    ],
)
def test_a_value_of_the_wrong_type_is_led_to(desk: Desk, row: tuple[str, ...], match: str) -> None:
    refused(desk, match, [(IDS[0], "1", "2026-02-28", "abc"), row, (IDS[2], "1", "", "")], TYPED)


def test_the_line_is_the_first_one_of_a_row_with_line_breaks(desk: Desk) -> None:
    content = 'id,title,note\n1,"two\nlines",\nx,"three\nmore\nlines",\n'
    refused(desk, r"line 4 \(the row ends on line 6\): column id: 'x' is no integer", content)


def test_lines_are_counted_right_with_windows_line_ends_and_a_byte_order_mark(desk: Desk) -> None:
    content = b'\xef\xbb\xbfid,title,note\r\n1,"two\r\nlines",\r\nx,b,\r\n'
    refused(desk, r"line 4: column id: 'x' is no integer", content)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("id,title,note\n1,a,\n2,b\n", r"line 3: 2 fields where the header has 3 \(column note is missing\)"),
        ("id,title,note\n1,a,,\n", "line 2: 4 fields where the header has 3"),
        ("id,title,note\n1,a,\n   \n", "line 3: 1 field where the header has 3"),
    ],
)
def test_a_short_or_long_row_is_led_to(desk: Desk, content: str, match: str) -> None:
    refused(desk, match, content)


def test_a_repeated_key_is_named_with_its_lines(desk: Desk) -> None:
    refused(
        desk,
        r"the key \(id\) is not unique: '2' on line 3, line 5",
        [("1", "a", ""), ("2", "b", ""), ("3", "c", ""), ("2", "b", "")],
    )


def test_a_key_is_compared_as_its_type(desk: Desk) -> None:
    upper = IDS[9].replace("0000-0000", "abcd-abcd").upper()
    rows = [(upper, "", "", ""), (IDS[1], "", "", ""), (upper.lower(), "", "", "")]
    refused(desk, rf"'{upper.lower()}' on line 2, line 4", rows, TYPED)


def test_rows_that_the_filter_drops_must_be_sound_too(desk: Desk) -> None:
    refused(desk, "line 3: column id: 'x' is no integer", [("1", "a", "", "open"), ("x", "b", "", "shut")], SHELF)


def test_keys_of_rows_that_the_filter_drops_must_be_unique_too(desk: Desk) -> None:
    refused(
        desk,
        r"not unique: '2' on line 3, line 4",
        [("1", "a", "", "open"), ("2", "b", "", "shut"), ("2", "c", "", "shut")],
        SHELF,
    )


def test_a_long_value_is_shown_in_part(desk: Desk) -> None:
    with pytest.raises(RefreshError) as caught:
        desk.run([("x" * 100_000, "a", "")])
    assert len(str(caught.value)) < 1000


def test_a_type_that_the_server_does_not_know_is_named(desk: Desk) -> None:
    odd = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "txt")))
    with pytest.raises(psycopg.errors.UndefinedObject, match="txt"):
        desk.run(ROWS, odd)


@pytest.mark.parametrize(
    ("type_name", "key"), [("timestamptz", "infinity"), ("date", "0044-03-15 BC"), ("boolean", "true")]
)
def test_a_repeated_key_that_python_cannot_read_is_named(desk: Desk, type_name: str, key: str) -> None:
    table = altered(BOOKS, columns=(Column("id", type_name, nullable=False), *BOOKS.columns[1:]))
    with pytest.raises(RefreshError, match=f"not unique: '{key}'"):
        desk.run([(key, "a", ""), (key, "b", "")], table)

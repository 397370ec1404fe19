"""Two files of one table compared: what was added, changed and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.compare import Comparison, Difference, comparing
from refresh_assets.published.csv_file.dialect import scan
from refresh_assets.published.files import PublishedFile
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, Desk, csv_text

HEADER = ("id", "title", "note")


def file(desk: Desk, name: str, content: str) -> PublishedFile:
    path = desk.folder / name
    path.write_text(content, encoding="utf-8")
    layout = scan(path, name)
    return PublishedFile("books.csv", layout.sha256, layout.rows, layout.bytes, path, layout)


def compared(desk: Desk, old: str, new: str, table: Table = BOOKS) -> tuple[Comparison, list[Difference]]:
    with (
        connect(desk.settings, "test") as conn,
        comparing(conn, table, file(desk, "old", old), file(desk, "new", new), statement_seconds=30) as found,
    ):
        return found, list(found.rows())


def differences(desk: Desk, old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    _, rows = compared(desk, csv_text(old), csv_text(new))
    return [(row.kind, row.old, row.new) for row in rows]


def test_rows_are_added_changed_and_removed_in_the_order_of_the_key(desk: Desk) -> None:
    new = [("0", "Cliff", "rare"), ROWS[0], ("2", "Dunes", ""), ROWS[3]]
    assert differences(desk, ROWS, new) == [
        ("added", None, ("0", "Cliff", "rare")),
        ("changed", ("2", "Dunes", "worn"), ("2", "Dunes", None)),
        ("removed", ("3", "Marsh", None), None),
    ]


def test_counts_are_those_of_all_rows(desk: Desk) -> None:
    found, rows = compared(desk, csv_text(ROWS[:1]), csv_text([(str(n), "x", "") for n in range(2, 1002)]))
    assert (found.added, found.changed, found.removed, len(rows)) == (1000, 0, 1, 1001)


def test_equal_files_do_not_differ(desk: Desk) -> None:
    assert differences(desk, ROWS, list(reversed(ROWS))) == []


def test_empty_and_absent_values_are_told_apart(desk: Desk) -> None:
    _, rows = compared(desk, "id,title,note\n1,a,\n", 'id,title,note\n1,a,""\n')
    assert [(row.old, row.new) for row in rows] == [(("1", "a", None), ("1", "a", ""))]


def test_columns_of_one_file_alone_are_named_and_not_compared(desk: Desk) -> None:
    found, rows = compared(desk, "id,title,shelf\n1,a,x\n", "note,Title,id\nn,a,1\n")
    assert (found.columns, found.only_old, found.only_new) == (("title", "id"), ("shelf",), ("note",))
    assert rows == []


def test_files_without_the_key_in_common_are_refused(desk: Desk) -> None:
    table = replace(BOOKS, key=("id",))
    with pytest.raises(RefreshError, match="the key column 'id' is not in both files"):
        compared(desk, "isbn,title\n1,a\n", "id,title\n1,a\n", table)


def test_a_row_that_is_too_short_is_told_with_its_file(desk: Desk) -> None:
    with pytest.raises(RefreshError, match=r"books\.csv \(sha256 \w+\): missing data for column"):
        compared(desk, "id,title\n1,a\n2\n", "id,title\n1,a\n")


def test_nothing_is_left_behind_and_the_table_is_not_touched(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    compared(desk, csv_text(ROWS), csv_text(ROWS[1:]))
    assert desk.picture() == before
    assert desk.value("SELECT count(*) FROM pg_class WHERE relname IN ('refresh_old', 'refresh_new')") == 0


def test_keys_of_several_columns_are_matched_by_all_of_them(desk: Desk) -> None:
    table = replace(BOOKS, key=("id", "title"), columns=(*BOOKS.columns[:2], replace(BOOKS.columns[2], name="note")))
    _, rows = compared(desk, csv_text([("1", "a", "x"), ("1", "b", "y")]), csv_text([("1", "b", "z")]), table)
    shown = [(row.kind, row.new or row.old) for row in rows]
    assert [(kind, values and values[1]) for kind, values in shown] == [("removed", "a"), ("changed", "b")]


def test_an_unpublished_column_does_not_matter(desk: Desk) -> None:
    table = replace(BOOKS, columns=(*BOOKS.columns, Column("more", "text", published=False, expression="note")))
    found, _ = compared(desk, csv_text(ROWS), csv_text(ROWS), table)
    assert found.columns == HEADER

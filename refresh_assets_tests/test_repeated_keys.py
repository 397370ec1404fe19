"""Repeated keys where the pass over all rows that would look for them is spared, and filling in parts."""

from __future__ import annotations

from typing import Any

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.table import parts
from refresh_assets_tests.published_fixtures import SHELF, Desk

SOUND = [(str(n), "t", "", "open" if n % 10 else "shut") for n in range(1, 41)]
KEPT = [(str(n), "t", "", "open") for n in range(1, 41)]


@pytest.mark.parametrize("rows", [SOUND, KEPT], ids=["some left out", "all kept"])
@pytest.mark.parametrize(
    "again",
    [
        ("7", "t", "", "open"),
        ("7", "other", "", "open"),
        ("7", "t", "", "shut"),
        ("10", "t", "", "shut"),
        ("10", "t", "", "open"),
    ],
)
def test_a_key_that_the_table_or_the_file_has_already_is_refused(
    desk: Desk, again: tuple[str, ...], rows: list[tuple[str, ...]]
) -> None:
    key = again[0]
    desk.run(rows, SHELF)
    before = desk.admin.execute("SELECT xmin::text, shelf.* FROM etl.shelf").fetchall()
    with pytest.raises(RefreshError, match=rf"the key \(id\) is not unique: '{key}' on line {int(key) + 1}, line 42"):
        desk.run([*rows, again], SHELF)
    assert desk.admin.execute("SELECT xmin::text, shelf.* FROM etl.shelf").fetchall() == before


def test_a_new_key_twice_is_refused(desk: Desk) -> None:
    desk.run(KEPT, SHELF)
    with pytest.raises(RefreshError, match="not unique: '99' on line 42, line 43"):
        desk.run([*KEPT, ("99", "a", "", "open"), ("99", "b", "", "open")], SHELF)


def test_a_repeated_key_is_told_before_a_shrink(desk: Desk) -> None:
    desk.run(KEPT, SHELF)
    with pytest.raises(RefreshError, match=r"the key \(id\) is not unique: '1'"):
        desk.run([KEPT[0], KEPT[0]], SHELF)


def test_a_key_that_may_be_null_in_the_table_is_compared_all_the_same(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.shelf (id int UNIQUE, title text, note text, kind text)")
    desk.admin.execute("INSERT INTO etl.shelf VALUES (NULL, 'lost'), (1, 'old')")
    with pytest.raises(RefreshError, match="it has rows without a key"):
        desk.run(KEPT[:2], SHELF)
    desk.admin.execute("DELETE FROM etl.shelf WHERE id IS NULL")
    assert desk.run(KEPT[:2], SHELF).changed == 1


def test_an_empty_table_is_filled_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_PAGES", 1)
    rows: list[tuple[Any, ...]] = [(str(n), f"title {n}", "x" * 100, "open") for n in range(500)]
    desk.run(rows, SHELF)
    desk.admin.execute("DELETE FROM etl.shelf")
    result = desk.run(rows, SHELF)
    assert (result.added, result.rows, len(desk.rows("etl.shelf"))) == (500, 500, 500)
    desk.admin.execute("DELETE FROM etl.shelf")
    with pytest.raises(RefreshError, match="not unique: '3'"):
        desk.run([*rows, rows[3]], SHELF)

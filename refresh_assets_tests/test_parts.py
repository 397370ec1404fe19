"""Large tables are compared part by part, and what comes out is what comparing them whole gives."""

from __future__ import annotations

from typing import Any

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.table import parts
from refresh_assets_tests.published_fixtures import SHELF, Desk, by_small_chunks

Rows = list[tuple[Any, ...]]
ROWS: Rows = [(str(n), f"title {n}", "x" * 100, "open") for n in range(1, 2001)]


@pytest.fixture(autouse=True, params=["chunk by chunk", "staged whole"])
def small_parts(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "chunk by chunk":
        by_small_chunks(desk, monkeypatch)
    else:
        monkeypatch.setattr(parts, "PART_PAGES", 12)


def changed(rows: Rows, *keys: int) -> Rows:
    return [(key, "another title", *rest) if int(key) in keys else (key, title, *rest) for key, title, *rest in rows]


def shuffled(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: int(row[0]) * 7919 % 2003)


def without(rows: Rows, *keys: int) -> Rows:
    return [row for row in rows if int(row[0]) not in keys]


NEW: Rows = [("0", "new", "", "open"), ("5000", "new", "", "open")]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        changed(ROWS, 1, 700, 2000),
        without(ROWS, 1, 1000, 2000),
        [*NEW[:1], *ROWS, *NEW[1:]],
        [*ROWS[300:], *ROWS[:300]],
        [*changed(ROWS, 5)[300:], *changed(ROWS, 5)[:300]],
        shuffled(ROWS),
        shuffled([*without(changed(ROWS, 9, 99), 50), *NEW]),
        ROWS[:1200],
    ],
    ids=["same", "changed", "removed", "added", "moved", "moved and changed", "shuffled", "all at once", "end cut off"],
)
def test_what_differs_is_found_wherever_the_rows_stand(desk: Desk, rows: Rows) -> None:
    desk.run(ROWS, SHELF)
    desk.admin.execute("VACUUM etl.shelf")
    new = [(*row[:2], "last word", row[3]) if row[0] == "1100" else row for row in rows]
    result = desk.run(new, SHELF)
    before, after = ({int(row[0]): row[1:] for row in some} for some in (ROWS, new))
    assert (result.added, result.changed, result.removed) == (
        len(after.keys() - before.keys()),
        sum(before[key] != after[key] for key in before.keys() & after.keys()),
        len(before.keys() - after.keys()),
    )
    assert {row[0]: (row[1], row[2] or "", row[3]) for row in desk.rows("etl.shelf")} == after


def test_rows_that_did_not_change_are_not_written_again(desk: Desk) -> None:
    desk.run(ROWS, SHELF)
    desk.admin.execute("VACUUM etl.shelf")
    seen = "SELECT count(*) FROM etl.shelf WHERE xmin::text <> (SELECT min(xmin::text) FROM etl.shelf)"
    desk.run([*changed(ROWS, 7)[300:], *changed(ROWS, 7)[:300]], SHELF)
    assert desk.value(seen) == 1


@pytest.mark.parametrize("copies", [(3, 3), (3, 1990), (1990, 1990)])
@pytest.mark.parametrize("title", ["title 3", "other"])
def test_a_key_repeated_in_another_part_is_told(desk: Desk, copies: tuple[int, int], title: str) -> None:
    desk.run(ROWS, SHELF)
    desk.admin.execute("VACUUM etl.shelf")
    rows = changed(without(ROWS, 3), 1100)
    for place in copies:
        rows.insert(place, ("3", title, "x" * 100, "open"))
    before = desk.admin.execute("SELECT xmin::text, shelf.* FROM etl.shelf").fetchall()
    with pytest.raises(RefreshError, match=r"the key \(id\) is not unique: '3' on line"):
        desk.run(rows, SHELF)
    assert desk.admin.execute("SELECT xmin::text, shelf.* FROM etl.shelf").fetchall() == before


def test_a_table_whose_own_key_is_not_unique_is_compared_whole(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.shelf (id int NOT NULL, title text, note text, kind text)")
    desk.run(ROWS, SHELF)
    desk.admin.execute("VACUUM etl.shelf")
    assert desk.run([*changed(ROWS, 7)[300:], *changed(ROWS, 7)[:300]], SHELF).changed == 1


def test_a_server_that_cannot_read_in_parts_compares_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TID_RANGE_SCANS", 10**9)
    desk.run(ROWS, SHELF)
    desk.admin.execute("VACUUM etl.shelf")
    assert desk.run(changed(ROWS, 7), SHELF).changed == 1

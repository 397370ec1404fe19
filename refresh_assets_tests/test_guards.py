"""The guard against loading far fewer rows than were there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as altered
from typing import Any

import pytest

from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.guards import ShrinkRefusedError
from refresh_assets_tests.published_fixtures import BOOKS, SHELF, Desk

TEN = [(str(n), f"t{n}", "") for n in range(10)]
SHELVED = [(str(n), "t", "", "open" if n < 6 else "shut") for n in range(10)]


def refused(desk: Desk, match: str, rows: Sequence[Sequence[str]], table: Table = BOOKS, **changes: Any) -> None:
    before = desk.admin.execute("SELECT * FROM etl.refresh_state").fetchall()
    with pytest.raises(ShrinkRefusedError, match=match):
        desk.run(rows, table, **changes)
    assert desk.admin.execute("SELECT * FROM etl.refresh_state").fetchall() == before


def test_half_of_the_rows_may_go_and_no_more(desk: Desk) -> None:
    desk.run(TEN)
    refused(desk, "refused to load 4 rows over 10: fewer than the declared share of 0.5", TEN[:4])
    assert desk.run(TEN[:5]).outcome == "loaded"


def test_the_share_is_the_declared_one(desk: Desk) -> None:
    strict = altered(BOOKS, shrink_limit=0.95)
    desk.run(TEN, strict)
    refused(desk, "declared share of 0.95", TEN[:9], strict)


def test_zero_rows_are_refused_even_where_every_shrink_is_declared_to_be_fine(desk: Desk) -> None:
    anything = altered(BOOKS, shrink_limit=0.0)
    desk.run(TEN, anything)
    refused(desk, "refused to load 0 rows over 10", [], anything)


def test_a_run_that_accepts_the_shrink_loads_it(desk: Desk) -> None:
    desk.run(TEN)
    assert desk.run(TEN[:1], accept_shrink=True).removed == 9
    assert desk.run([], accept_shrink=True).rows == 0


def test_the_refusal_shows_the_values_of_the_filter_column(desk: Desk) -> None:
    desk.run(SHELVED, SHELF)
    renamed = [(*row[:3], row[3].upper()) for row in SHELVED]
    refused(
        desk,
        r"0 rows over 6: .* column 'kind' has 'OPEN' in 6 rows, 'SHUT' in 4 rows, kept are 'open', 'free'",
        renamed,
        SHELF,
    )


def test_a_narrower_filter_is_our_own_doing(desk: Desk) -> None:
    rows = [(str(n), "t", "", "open" if n else "free") for n in range(10)]
    desk.run(rows, SHELF)
    assert desk.run(rows, SHELF, allowed=("free",)).rows == 1


def test_with_a_changed_filter_the_published_rows_are_compared(desk: Desk) -> None:
    desk.run(SHELVED, SHELF)
    refused(
        desk,
        "4 rows are published where the last load had 10",
        [*SHELVED[:1], *SHELVED[6:9]],
        SHELF,
        allowed=("shut",),
    )


def test_with_a_changed_filter_zero_rows_stay_refused(desk: Desk) -> None:
    desk.run(SHELVED, SHELF)
    refused(desk, "refused to load 0 rows", SHELVED, SHELF, allowed=("none",))


def test_a_changed_transform_is_our_own_doing_as_well(desk: Desk) -> None:
    desk.run(SHELVED, SHELF)
    desk.admin.execute("INSERT INTO etl.shelf SELECT n, 't' FROM generate_series(100, 200) AS n")
    assert desk.run(SHELVED, altered(SHELF, transform_version=2)).outcome == "loaded"


@pytest.mark.parametrize(("limit", "before", "after"), [(0.55, 100, 55), (0.07, 100, 7), (0.14, 50, 7)])
def test_exactly_the_declared_share_is_loaded(desk: Desk, limit: float, before: int, after: int) -> None:
    table = altered(BOOKS, shrink_limit=limit)
    rows = [(str(n), "t", "") for n in range(before)]
    desk.run(rows, table)
    refused(desk, "fewer than the declared share", rows[: after - 1], table)
    assert desk.run(rows[:after], table).outcome == "loaded"

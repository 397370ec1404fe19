"""Random files over random tables: taken chunk by chunk they come to what they come to staged whole."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.table import parts
from refresh_assets_tests.chunk_fixtures import ROWS, Rows
from refresh_assets_tests.published_fixtures import SHELF, Desk, by_small_chunks

pytestmark = pytest.mark.slow

ROUNDS = 15
BY_CHUNKS, WHOLE = "etl", "whole"
BETWEEN = ["SELECT", "VACUUM SHELF", "VACUUM FULL SHELF", "TRUNCATE SHELF", "DELETE FROM SHELF WHERE id % 97 = 5"]
TOLD = ("outcome", "rows", "rows_staged", "added", "changed", "removed", "drift", "filter_counts", "message")


@dataclass
class Twins:
    """Two schemas into which the same files are loaded in the two ways."""

    desk: Desk
    monkeypatch: pytest.MonkeyPatch
    chunked: list[bool] = field(default_factory=list)
    """Of each load chunk by chunk that came to its end, whether it was one."""

    def load(self, rows: Rows, *, accept_shrink: bool) -> tuple[Any, Any]:
        return (
            self._told(rows, BY_CHUNKS, 12, accept_shrink=accept_shrink),
            self._told(rows, WHOLE, 10**9, accept_shrink=accept_shrink),
        )

    def held(self) -> tuple[Any, Any]:
        """Return what both tables hold."""
        return self.desk.rows(f"{BY_CHUNKS}.shelf"), self.desk.rows(f"{WHOLE}.shelf")

    def both(self, statement: str) -> None:
        for schema in (BY_CHUNKS, WHOLE):
            self.desk.admin.execute(statement.replace("SHELF", f"{schema}.shelf"))

    def _told(self, rows: Rows, schema: str, part_pages: int, *, accept_shrink: bool) -> Any:
        self.monkeypatch.setattr(parts, "PART_PAGES", part_pages)
        try:
            result = self.desk.run(rows, SHELF, schema=schema, accept_shrink=accept_shrink, guard=self._look)
        except RefreshError as error:
            return str(error).replace(WHOLE, BY_CHUNKS)
        told = [getattr(result, name) for name in TOLD]
        return [*told, sorted(map(str, result.samples.changed)), sorted(map(str, result.samples.removed))]

    def _look(self, conn: psycopg.Connection[Any]) -> None:
        spellings = conn.execute("SELECT to_regclass('pg_temp.refresh_spellings')").fetchone()
        self.chunked.append(spellings != (None,))


def varied(chance: random.Random, rows: Rows) -> Rows:
    """Return rows of which some are changed, gone, new, left out, somewhere else, or there twice."""
    rows = list(rows)
    share = chance.choice([0.0, 0.002, 0.02, 0.2])
    for place, (key, title, note, kind) in enumerate(rows):
        if chance.random() < share:
            rows[place] = (key, chance.choice([title, f"{title}!"]), note, chance.choice(["open", "closed", "", kind]))
    if chance.random() < 0.5:
        first = chance.randrange(len(rows))
        del rows[first : first + chance.randrange(1, 200)]
    if chance.random() < 0.5:
        new = [(str(5000 + number), "new", "x" * 90, "open") for number in range(chance.randrange(1, 200))]
        place = chance.choice([0, len(rows), chance.randrange(len(rows))])
        rows[place:place] = new
    for _ in range(chance.choice([0, 0, 1, 20])):
        rows.insert(chance.randrange(len(rows)), rows.pop(chance.randrange(len(rows))))
    for _ in range(chance.choice([0, 0, 0, 0, 1])):
        key, title, note, _kind = chance.choice(rows)
        again = (key, chance.choice([title, "again"]), note, chance.choice(["open", "closed"]))
        rows.insert(chance.randrange(len(rows)), again)
    if chance.random() < 0.1:
        rows[chance.randrange(len(rows))] = chance.choice([("x", "t", "", "open"), ("7", "", "", "open")])
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_come_to_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    by_small_chunks(desk, monkeypatch)
    chance = random.Random(seed)  # noqa: S311
    twins = Twins(desk, monkeypatch)
    assert len({str(told) for told in twins.load(ROWS, accept_shrink=True)}) == 1
    rows, outcomes = ROWS, set()
    for _ in range(ROUNDS):
        twins.both(chance.choice(BETWEEN))
        wanted = varied(chance, chance.choice([ROWS, rows]))
        by_chunks, whole = twins.load(wanted, accept_shrink=chance.random() < 0.5)
        assert by_chunks == whole
        by_chunks_hold, whole_holds = twins.held()
        assert by_chunks_hold == whole_holds
        refused = isinstance(by_chunks, str)
        outcomes.add("refused" if refused else by_chunks[0])
        rows = rows if refused else wanted
    assert {"loaded", "refused"} <= outcomes
    assert twins.chunked[::2].count(True) >= ROUNDS // 4

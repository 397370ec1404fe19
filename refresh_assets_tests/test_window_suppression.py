"""Small cells: hidden as NULL, never as 0, and not to be had from anything else that is published."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from refresh_assets.windows.source import LineCounts, Staged
from refresh_assets.windows.source_settings import read_logs
from refresh_assets.windows.suppress import suppress
from refresh_assets.windows.tracking_logs import TrackingLogs
from refresh_assets_tests.event_logs import Cell, Counting, Key, event, log_of, moment, window

HIDDEN = (None, None, None, None, True)
Cells = dict[tuple[str, str], Cell]


def published(counting: Counting, windows: Iterable[Cells], min_cell: int = 5) -> list[dict[tuple[str, str], Any]]:
    """Return the rows that may be shown of each window's cells."""
    counting.conn.execute("TRUNCATE pg_temp.window_cells, pg_temp.window_rows")
    windows = list(windows)
    with counting.conn.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO pg_temp.window_cells VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (window(day).since, window(day).until, *key, *cell)
                for day, cells in enumerate(windows)
                for key, cell in cells.items()
            ],
        )
    suppress(counting.conn, min_cell)
    found: list[dict[tuple[str, str], Any]] = [{} for _ in windows]
    rows: list[Any] = counting.conn.execute("SELECT * FROM pg_temp.window_rows").fetchall()
    for since, _until, course, kind, *numbers in rows:
        found[(since - window().since).days][course, kind] = tuple(numbers)
    return found


def cell(events: int, learners: int, hours: float = 1) -> Cell:
    return events, learners, moment(hours), moment(hours + 1)


def test_fewer_learners_than_the_smallest_cell_are_hidden_and_as_many_are_shown(counting: Counting) -> None:
    cells = {("c", str(learners)): cell(10 * learners, learners) for learners in range(8)}
    (rows,) = published(counting, [cells])
    for learners in range(5):
        assert rows["c", str(learners)] == HIDDEN
    for learners in range(5, 8):
        assert rows["c", str(learners)] == (*cell(10 * learners, learners), False)


def test_many_events_of_few_learners_are_hidden(counting: Counting) -> None:
    assert published(counting, [{("c", "k"): cell(1_000_000, 4)}]) == [{("c", "k"): HIDDEN}]


def test_a_smallest_cell_of_one_hides_what_nobody_in_particular_did(counting: Counting) -> None:
    cells = {("c", "one"): cell(3, 1), ("c", "nobody"): cell(3, 0)}
    assert published(counting, [cells], min_cell=1) == [{("c", "one"): (*cell(3, 1), False), ("c", "nobody"): HIDDEN}]


def test_a_row_depends_on_its_own_cell_alone(counting: Counting) -> None:
    """Otherwise a window that is loaded alone would differ from the same one in a backfill."""
    chance = random.Random(5)  # noqa: S311
    windows = [some_cells(chance) for _ in range(50)]
    together = published(counting, windows)
    assert together == [published(counting, [cells])[0] for cells in windows]


def some_cells(chance: random.Random) -> Cells:
    """Return a window's cells: up to three courses with up to three kinds, most of them small."""
    return {
        (f"course {course}", f"kind {kind}"): cell(
            (learners := chance.choice([0, 1, 1, 2, 3, 4, 4, 5, 5, 6, 30])) + chance.randrange(10), learners
        )
        for course in range(chance.randint(1, 3))
        for kind in range(chance.randint(1, 3))
    }


def other_small_cells(chance: random.Random, was: Cell) -> list[Cell]:
    """Return what a hidden cell might be as well: every number of learners, more and fewer events, other times."""
    return [
        cell(events, learners, hours)
        for learners in range(5)
        for events in (learners, learners + 1, was[0] + 1, was[0] + 100)
        for hours in (chance.randrange(20),)
    ]


def test_whatever_stands_behind_a_hidden_cell_what_is_published_is_the_same(counting: Counting) -> None:
    """Brute force: logs that differ only in what is hidden, be it a single cell, cannot be told apart."""
    chance = random.Random(7)  # noqa: S311
    tried = 0
    for _ in range(60):
        cells = some_cells(chance)
        hidden = [key for key, found in cells.items() if found[1] < 5]
        for key in hidden:
            worlds = [cells, *({**cells, key: other} for other in other_small_cells(chance, cells[key]))]
            rows = published(counting, worlds)
            assert all(each == rows[0] for each in rows)
            tried += len(hidden) == 1
    assert tried > 10


# Through a whole log, with all that a source tells of it


def told(counting: Counting, home: Path, lines: list[bytes]) -> tuple[dict[Key, Any], Any]:
    """Return all that is published of a log: its rows, and what is said of its lines."""
    (home / "tracking.log").write_bytes(log_of(*lines))
    logs = TrackingLogs(read_logs({"WINDOW_LOGS": str(home), "REFRESH_HOME": str(home), "WINDOW_BROKEN_SHARE": "0.5"}))
    rows = counting.rows(logs, [window()])
    assert counting.staged is not None
    return rows, (counting.staged.lines, counting.staged.notes)


def test_more_events_of_a_hidden_cell_change_nothing_that_is_told_of_a_log(counting: Counting, tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311
    for _ in range(10):
        lines = [b"# a comment", b"", b"broken", b"broken too", *some_lines(chance)]
        before = told(counting, tmp_path, lines)
        hidden = [key for key, row in before[0].items() if row == HIDDEN]
        for _, course, kind in hidden:
            lines += [event(moment(20 * chance.random()), user=1, course=course, kind=kind) for _ in range(3)]
        chance.shuffle(lines)
        assert told(counting, tmp_path, lines) == before


def some_lines(chance: random.Random) -> list[bytes]:
    """Return events: of each course and kind some of a few learners, of whom 1 is always one."""
    return [
        event(moment(20 * chance.random()), user=user, course=course, kind=kind)
        for course in ("a", "b", "c")
        for kind in ("watched", "solved")
        for user in range(1, 1 + chance.choice([1, 2, 3, 4, 5, 6, 9]))
        for _ in range(chance.randint(1, 3))
    ]


def test_north_4_south_5_east_1_west_12(counting: Counting, tmp_path: Path) -> None:
    courses = {"north": 4, "south": 5, "east": 1, "west": 12}
    lines = [
        event(moment(1) + timedelta(minutes=number), user=f"{course}-{number}", course=course)
        for course, learners in courses.items()
        for number in range(learners)
    ]
    rows, (counts, notes) = told(counting, tmp_path, lines)
    assert {course: row[0] for (_, course, _), row in rows.items()} == {
        "north": None,
        "south": 5,
        "east": None,
        "west": 12,
    }
    assert [course for (_, course, _), row in rows.items() if row[4]] == ["east", "north"]
    assert (counts, notes) == (LineCounts(0, 0, 0), ())


@pytest.mark.parametrize(
    ("told_of", "names"), [(LineCounts, ["blank", "comment", "broken"]), (Staged, ["seen", "lines", "notes"])]
)
def test_no_total_of_events_is_among_what_is_told(told_of: type[LineCounts | Staged], names: list[str]) -> None:
    """`seen` is for the database alone. What is added here must tell nothing of how many events there are."""
    assert [field.name for field in fields(told_of)] == names

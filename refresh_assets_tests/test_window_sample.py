"""The sample: something to see on any day, the same for everybody, and labelled as what it is."""

from __future__ import annotations

import gzip
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from refresh_assets.windows.sample import DAYS, LABEL, SampleLog, day_of_events, write_sample
from refresh_assets.windows.window import Window
from refresh_assets_tests.event_logs import Counting

NOON = datetime(2026, 3, 4, 12, tzinfo=timezone.utc)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_days_are_filled_whenever_one_looks(counting: Counting, tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    windows = [Window(now - timedelta(days=days), now - timedelta(days=days - 1)) for days in range(7, 0, -1)]
    rows = counting.rows(SampleLog(tmp_path), windows)
    assert {number for number, _, _ in rows} == set(range(7))
    shown = {course for (_, course, _), row in rows.items() if not row[4]}
    assert shown == {"course-v1:Sample+Rivers+1", "course-v1:Sample+Mosses+1", "course-v1:Sample+Lichens+1"}
    assert all(row[4] for (_, course, _), row in rows.items() if "Tardigrades" in course)
    assert counting.staged is not None
    assert counting.staged.lines is not None
    assert counting.staged.lines.broken > 0
    assert SampleLog(tmp_path).look(windows[:6]) == {each: counting.staged.seen[each] for each in windows[:6]}


def test_a_day_has_the_same_events_for_everybody() -> None:
    assert day_of_events(date(2026, 3, 3)) == day_of_events(date(2026, 3, 3))
    assert day_of_events(date(2026, 3, 3)) != day_of_events(date(2026, 3, 4))


def test_of_today_there_is_what_has_happened_and_the_rest_comes(tmp_path: Path) -> None:
    write_sample(tmp_path, NOON)
    morning = (tmp_path / "tracking.log").read_bytes()
    write_sample(tmp_path, NOON + timedelta(hours=6))
    evening = (tmp_path / "tracking.log").read_bytes()
    assert evening.startswith(morning)
    assert len(evening) > len(morning)
    write_sample(tmp_path, NOON + timedelta(days=1))
    assert gzip.decompress((tmp_path / "tracking.log-20260304.gz").read_bytes()).startswith(evening)


def test_days_on_which_nobody_looked_are_filled_in(tmp_path: Path) -> None:
    write_sample(tmp_path, NOON)
    write_sample(tmp_path, NOON + timedelta(days=30))
    assert len(names(tmp_path)) == DAYS + 30 + 1


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    write_sample(tmp_path, NOON)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    write_sample(tmp_path, NOON)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_it_is_small_and_says_what_it_is(tmp_path: Path) -> None:
    write_sample(tmp_path, NOON)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.gz")) < 300_000
    for path in tmp_path.iterdir():
        body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert body.decode().splitlines()[0] == LABEL
    assert "no real events" in SampleLog(tmp_path).name

"""What a person may ask for: whole windows that have ended. All else is refused before anything is looked at."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from refresh_assets.cron import CronTicks
from refresh_assets.windows.grid import between, every, parse, wished
from refresh_assets.windows.window import Window, WindowError
from refresh_assets_tests.windows_fixtures import START, at

GRID = CronTicks("15 4 * * 1-5", "UTC", START)
NOW = at("2026-03-05T12:00")


def wish(since: str | None, until: str | None) -> list[str]:
    found = wished(
        GRID, None if since is None else parse("since", since), None if until is None else parse("until", until), NOW
    )
    return [str(window) for window in found.windows]


def test_mondays_window_covers_the_weekend() -> None:
    assert wish("2026-02-27T04:15Z", "2026-03-02T04:15Z") == ["2026-02-27T04:15+00:00/2026-03-02T04:15+00:00"]


def test_windows_follow_each_other_without_a_gap() -> None:
    found = between(GRID, at("2026-02-20T04:15"), at("2026-03-05T04:15"))
    assert len(found) == 9
    assert [window.until for window in found[:-1]] == [window.since for window in found[1:]]


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-03-03T04:16Z", "2026-03-04T04:15Z"),
        ("2026-03-03T04:15Z", "2026-03-03T04:16Z"),
        ("2026-03-03T12:00+05:45", "2026-03-03T20:00-08:00"),
    ],
)
def test_bounds_that_cut_windows_are_widened_and_it_says_so(since: str, until: str) -> None:
    found = wished(GRID, parse("since", since), parse("until", until), NOW)
    assert [str(window) for window in found.windows] == ["2026-03-03T04:15+00:00/2026-03-04T04:15+00:00"]
    assert found.widened
    assert found.widened.endswith("widened to whole windows: 2026-03-03T04:15+00:00/2026-03-04T04:15+00:00")


def test_whole_bounds_are_not_said_to_be_widened() -> None:
    assert wished(GRID, at("2026-03-03T04:15"), at("2026-03-04T04:15"), NOW).widened is None


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        ("2026-03-03T04:15Z", "2026-03-03T04:15Z", "must come after since"),
        ("2026-03-04T04:15Z", "2026-03-03T04:15Z", "must come after since"),
        ("2026-03-03T04:15+02:00", "2026-03-03T02:15Z", "must come after since"),
        (None, "2026-03-03T04:15Z", "since is missing"),
        ("2026-03-03T04:15Z", None, "until is missing"),
        (None, None, "since is missing"),
        ("2026-03-03T04:15", "2026-03-04T04:15Z", "since .* has no time zone"),
        ("2026-03-03T04:15Z", "2026-03-04T04:15", "until .* has no time zone"),
        ("2026-03-03", "2026-03-04", "has no time zone"),
        ("2026-02-30T04:15Z", "2026-03-04T04:15Z", "is no time"),
        ("2026-03-03T25:00Z", "2026-03-04T04:15Z", "is no time"),
        ("2026-03-03T04:15+25:00", "2026-03-04T04:15Z", "is no time"),
        ("yesterday", "2026-03-04T04:15Z", "is no time"),
        ("", "2026-03-04T04:15Z", "is no time"),
        ("0001-01-01T00:00+14:00", "2026-03-04T04:15Z", "lies outside the calendar"),
        ("0001-01-01T00:00Z", "2026-03-04T04:15Z", "lies before the first window"),
        ("2023-12-31T04:15Z", "2026-03-04T04:15Z", "set WINDOW_START"),
        ("2026-03-03T04:15Z", "2026-03-05T12:01Z", "lies in the future"),
        ("2026-03-03T04:15Z", "9999-12-31T23:59Z", "lies in the future"),
        ("2026-03-03T04:15Z", "2026-03-05T11:00Z", "has not ended yet"),
    ],
)
def test_a_bad_wish_is_refused(since: str | None, until: str | None, why: str) -> None:
    with pytest.raises(WindowError, match=why):
        wish(since, until)


def test_a_wish_for_too_many_windows_is_refused() -> None:
    minutes = CronTicks("* * * * *", "UTC", START)
    with pytest.raises(WindowError, match="more than 20000 windows"):
        wished(minutes, at("2025-01-01"), at("2026-01-01"), NOW)


def test_windows_that_are_there_are_not_too_many() -> None:
    minutes = CronTicks("* * * * *", "UTC", START)
    found = list(every(minutes, at("2026-01-01"), at("2026-02-01")))
    assert len(found) == 31 * 24 * 60
    assert all(before.until == after.since for before, after in pairwise(found))
    assert (found[0].since, found[-1].until) == (at("2026-01-01"), at("2026-02-01"))
    assert list(every(minutes, at("2026-01-01"), at("2026-01-01"))) == []


def test_a_window_is_the_same_in_whatever_zone_its_bounds_are_written() -> None:
    zone = timezone(timedelta(hours=5, minutes=45))
    local = Window(datetime(2026, 3, 3, 10, 0, tzinfo=zone), datetime(2026, 3, 4, 10, 0, tzinfo=zone))
    assert local == Window(at("2026-03-03T04:15"), at("2026-03-04T04:15"))
    assert hash(local) == hash(Window(at("2026-03-03T04:15"), at("2026-03-04T04:15")))


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_window_without_a_time_zone_is_none(bound: str) -> None:
    bounds = {"since": at("2026-03-03"), "until": at("2026-03-04")}
    bounds[bound] = bounds[bound].replace(tzinfo=None)
    with pytest.raises(WindowError, match=f"{bound} .* has no time zone"):
        Window(**bounds)


@pytest.mark.parametrize(
    ("cron", "start", "hours"),
    [
        # The hour from 02:00 does not exist: it ticks at 03:00.
        ("30 2 * * *", "2026-03-28T01:30", [23.5, 23.5, 24]),
        # It comes twice: it ticks at the second one.
        ("30 2 * * *", "2026-10-24T00:30", [25, 24, 24]),
        ("0 0 * * *", "2026-03-27T23:00", [24, 23, 24]),
        ("0 * * * *", "2026-10-25T00:00", [1, 1, 1]),
    ],
)
def test_windows_over_clock_changes_have_no_gap_and_no_overlap(cron: str, start: str, hours: list[float]) -> None:
    grid = CronTicks(cron, "Europe/Berlin", START)
    found = between(grid, at(start), at(start) + timedelta(days=4))[:3]
    assert [(window.until - window.since) / timedelta(hours=1) for window in found] == hours
    assert [window.until for window in found[:-1]] == [window.since for window in found[1:]]


@pytest.mark.parametrize("moment", ["2026-03-29T00:30", "2026-03-29T01:30", "2026-10-25T00:15", "2026-10-25T01:15"])
def test_each_moment_of_such_a_night_is_in_one_window(moment: str) -> None:
    for cron in ("30 2 * * *", "0 * * * *", "15,45 2 * * *"):
        grid = CronTicks(cron, "Europe/Berlin", START)
        (window,) = wished(grid, at(moment), at(moment) + timedelta(seconds=1), NOW.replace(year=2027)).windows
        assert window.since <= at(moment) < window.until
        around = between(grid, at(moment) - timedelta(days=40), at(moment) + timedelta(days=40))
        assert [other for other in around if other.since <= at(moment) < other.until] == [window]

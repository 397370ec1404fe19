"""Whether windows are cut alike at clock changes, wherever one begins to count. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

from dagster._check import CheckError

from refresh_assets.cron import CronTicks

YEARS_BEFORE, YEARS_AFTER = 1, 1
# Clocks are changed by two hours at most, but for the change of a day, which is past everywhere.
_NEAR = timedelta(hours=3)
_LONG_BEFORE = timedelta(hours=6)
_STEP = timedelta(days=7)
# This is done whenever definitions are loaded, so that of a cron that ticks every minute not all is looked at.
_MOST_COMPARED, _MOST_PASSED = 12, 500


@lru_cache(maxsize=16)
def cut_otherwise(cron: str, zone: str, year: int) -> datetime | None:
    """Return a clock change of this year or its neighbours, in UTC, at which windows depend on where one begins.

    There Dagster's iterator finds other ticks when it is started at one of them than when it passes by.
    """
    grid = CronTicks(cron, zone, datetime(year, 1, 1, tzinfo=timezone.utc))
    passed = 0
    for change in clock_changes(zone, year):
        passing = grid.ticks(change - _LONG_BEFORE, change + _NEAR)
        if not _alike(grid, sorted(passing, key=lambda tick: abs(tick - change))[:_MOST_COMPARED]):
            return change
        passed += len(passing)
        if passed > _MOST_PASSED:
            break
    return None


def clock_changes(zone: str, year: int) -> Iterator[datetime]:
    """Yield when clocks are changed in some years around this one, in UTC and to the minute."""
    clocks = ZoneInfo(zone)

    def offset(moment: datetime) -> timedelta | None:
        return moment.astimezone(clocks).utcoffset()

    moment = datetime(year - YEARS_BEFORE, 1, 1, tzinfo=timezone.utc)
    while moment.year <= year + YEARS_AFTER:
        before, after = moment, moment + _STEP
        if offset(before) != offset(after):
            while after - before > timedelta(minutes=1):
                middle = before + (after - before) / 2
                before, after = (middle, after) if offset(middle) == offset(moment) else (before, middle)
            yield (before + timedelta(minutes=1)).replace(second=0, microsecond=0)
        moment += _STEP


def _alike(grid: CronTicks, ticks: Sequence[datetime]) -> bool:
    try:
        return all(grid.last(tick) == tick == grid.next(tick) for tick in ticks)
    except CheckError:
        # So the iterator says that it has lost its way.
        return False

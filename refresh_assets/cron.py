"""The ticks of a cron, by the very iterator that schedules and partitions use. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

from dagster._utils.schedules import cron_string_iterator, is_valid_cron_schedule, reverse_cron_string_iterator

# Nobody wants more at once, and they would fill memory.
MOST = 20_000


@dataclass(frozen=True)
class CronTicks:
    """The ticks of a cron in a time zone from `start` on, in UTC.

    Raises ValueError where the cron is none.
    """

    cron: str
    timezone: str
    start: datetime

    def __post_init__(self) -> None:
        if not is_valid_cron_schedule(self.cron):
            raise ValueError(f"no cron expression: {self.cron}")

    @cached_property
    def first(self) -> datetime:
        return self.next(self.start)

    def ticks(self, since: datetime, until: datetime) -> Sequence[datetime]:
        found: list[datetime] = []
        for tick in cron_string_iterator(since.timestamp(), self.cron, self.timezone):
            moment = tick.astimezone(timezone.utc)
            if moment > until or len(found) > MOST:
                break
            if moment >= since:
                found.append(moment)
        return found

    def last(self, until: datetime) -> datetime:
        found = (
            tick.astimezone(timezone.utc)
            for tick in reverse_cron_string_iterator(until.timestamp(), self.cron, self.timezone)
        )
        return next(moment for moment in found if moment <= until)

    def next(self, since: datetime) -> datetime:
        found = (
            tick.astimezone(timezone.utc) for tick in cron_string_iterator(since.timestamp(), self.cron, self.timezone)
        )
        return next(moment for moment in found if moment >= since)

"""The windows as Dagster's partitions: both on the ticks of one cron. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import pairwise

import dagster as dg
from dagster._utils.schedules import cron_string_iterator, is_valid_cron_schedule, reverse_cron_string_iterator

from refresh_assets.settings import SettingsError
from refresh_assets.windows.grid import MOST_WINDOWS
from refresh_assets.windows.settings import WindowSettings
from refresh_assets.windows.window import Window

# With the offset, for an hour that comes twice in a night must not make one key of two windows.
KEY_FORMAT = "%Y-%m-%dT%H:%M%z"


@dataclass(frozen=True)
class CronGrid:
    """The ticks of a cron in a time zone, by the very iterator that schedules and partitions use."""

    cron: str
    timezone: str
    start: datetime

    @cached_property
    def first(self) -> datetime:
        return self.next(self.start)

    def ticks(self, since: datetime, until: datetime) -> Sequence[datetime]:
        found: list[datetime] = []
        for tick in cron_string_iterator(since.timestamp(), self.cron, self.timezone):
            moment = tick.astimezone(timezone.utc)
            if moment > until or len(found) > MOST_WINDOWS:
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


@dataclass(frozen=True)
class Partitions:
    """The partitions definition with the grid that it stands on."""

    grid: CronGrid
    definition: dg.TimeWindowPartitionsDefinition

    def windows(self, context: dg.AssetExecutionContext) -> list[Window]:
        """Return the windows of a run's partitions, in ascending order."""
        span = context.partition_time_window
        ticks = self.grid.ticks(span.start.astimezone(timezone.utc), span.end.astimezone(timezone.utc))
        return [Window(*bounds) for bounds in pairwise(ticks)]

    def key(self, window: Window) -> str:
        """Return a window's partition key."""
        keys = self.definition.get_partition_keys_in_time_window(dg.TimeWindow(window.since, window.until))
        return keys[0]


def partitions(settings: WindowSettings) -> Partitions:
    """Return the partitions. Raises SettingsError where the cron is none."""
    if not is_valid_cron_schedule(settings.cron):
        raise SettingsError("WINDOW_CRON must be a cron expression such as 15 4 * * 1-5")
    grid = CronGrid(settings.cron, settings.timezone, settings.start)
    definition = dg.TimeWindowPartitionsDefinition(
        cron_schedule=settings.cron,
        start=settings.start.replace(tzinfo=None),
        timezone=settings.timezone,
        fmt=KEY_FORMAT,
    )
    return Partitions(grid, definition)

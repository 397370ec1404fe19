"""The windows as Dagster's partitions: both on the ticks of one cron. Upper floor: imports dagster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone
from zoneinfo import ZoneInfo

import dagster as dg

from refresh_assets.cron import CronTicks
from refresh_assets.settings import SettingsError
from refresh_assets.windows.grid import every
from refresh_assets.windows.settings import WindowSettings
from refresh_assets.windows.window import Window

# With the offset, for an hour that comes twice in a night must not make one key of two windows.
KEY_FORMAT = "%Y-%m-%dT%H:%M%z"


@dataclass(frozen=True)
class Partitions:
    """The partitions definition with the grid that it stands on."""

    grid: CronTicks
    definition: dg.TimeWindowPartitionsDefinition

    def windows(self, context: dg.AssetExecutionContext) -> list[Window]:
        """Return the windows of a run's partitions, in ascending order."""
        span = context.partition_time_window
        return list(every(self.grid, span.start.astimezone(timezone.utc), span.end.astimezone(timezone.utc)))

    def key(self, window: Window) -> str:
        """Return a window's partition key."""
        return window.since.astimezone(ZoneInfo(self.grid.timezone)).strftime(KEY_FORMAT)


def partitions(settings: WindowSettings) -> Partitions:
    """Return the partitions. Raises SettingsError where the cron is none."""
    grid = window_grid(settings)
    definition = dg.TimeWindowPartitionsDefinition(
        cron_schedule=settings.cron,
        start=settings.start.replace(tzinfo=None),
        timezone=settings.timezone,
        fmt=KEY_FORMAT,
    )
    return Partitions(grid, definition)


def window_grid(settings: WindowSettings) -> CronTicks:
    """Return the bounds of the windows. Raises SettingsError where the cron is none."""
    try:
        return CronTicks(settings.cron, settings.timezone, settings.start)
    except ValueError:
        raise SettingsError("WINDOW_CRON must be a cron expression such as 15 4 * * 1-5") from None

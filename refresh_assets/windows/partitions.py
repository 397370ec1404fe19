"""The windows as Dagster's partitions: both on the ticks of one cron. Upper floor: imports dagster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

import dagster as dg
from dagster._vendored.croniter.croniter import CroniterBadDateError

from refresh_assets.cron import CronTicks
from refresh_assets.settings import SettingsError
from refresh_assets.windows.clock_changes import cut_otherwise
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
    """Return the partitions. Raises SettingsError as `window_grid` does."""
    grid = window_grid(settings)
    definition = dg.TimeWindowPartitionsDefinition(
        cron_schedule=settings.cron,
        start=settings.start.replace(tzinfo=None),
        timezone=settings.timezone,
        fmt=KEY_FORMAT,
    )
    return Partitions(grid, definition)


def window_grid(settings: WindowSettings) -> CronTicks:
    """Return the bounds of the windows.

    Raises SettingsError where the cron is none, or cuts windows in this time zone that do not fit together.
    """
    try:
        grid = CronTicks(settings.cron, settings.timezone, settings.start)
        grid.next(settings.start)
    except CroniterBadDateError:
        raise SettingsError("WINDOW_CRON names a date that never comes, such as 31 April") from None
    except ValueError:
        raise SettingsError("WINDOW_CRON must be a cron expression such as 15 4 * * 1-5") from None
    change = cut_otherwise(settings.cron, settings.timezone, datetime.now(timezone.utc).year)
    if change is not None:
        raise SettingsError(
            f"WINDOW_CRON ({settings.cron!r}) cuts no windows that fit together in the time zone {settings.timezone} "
            f"when clocks are changed, as on {change:%Y-%m-%d}: events would count twice. Let it tick once a day at an "
            "hour that no clock change touches, such as 15 4 * * *, or set WINDOW_TIMEZONE to UTC"
        )
    return grid

"""The settings of the windows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from refresh_assets.settings import Env, Reader, SettingsError, read_settings

_DATE, _DAYS = "a date such as 2026-01-01", "a whole number of days from 1 to 3660"
_LONGEST_DAYS = 3660


@dataclass(frozen=True)
class WindowSettings:
    """How the event log is cut into windows: they begin and end at the ticks of `cron` in `timezone`."""

    cron: str
    timezone: str
    start: datetime
    bootstrap: timedelta
    late: timedelta


def windows_wanted(env: Env = os.environ) -> bool:
    """Tell whether an event log is set, so that there are windows at all."""
    return bool(env.get("WINDOW_SOURCE", "").strip())


def read_windows(env: Env = os.environ) -> WindowSettings:
    """Return the settings of the windows. Raises SettingsError."""
    reader = Reader(env)
    timezone = reader.parsed(
        "WINDOW_TIMEZONE" if env.get("WINDOW_TIMEZONE", "").strip() else "REFRESH_TIMEZONE",
        lambda name: ZoneInfo(name).key,
        "an IANA time zone such as Europe/Berlin",
        "UTC",
    )
    start = reader.parsed("WINDOW_START", date.fromisoformat, _DATE, date(2024, 1, 1))
    settings = WindowSettings(
        cron=" ".join(reader.text("WINDOW_CRON").split()),
        timezone=timezone,
        start=datetime(start.year, start.month, start.day, tzinfo=ZoneInfo(timezone)),
        bootstrap=timedelta(days=reader.parsed("WINDOW_BOOTSTRAP_DAYS", _days, _DAYS, 7)),
        late=timedelta(days=reader.parsed("WINDOW_LATE_DAYS", _days, _DAYS, 7)),
    )
    reader.done()
    return settings


def read_min_cell(env: Env = os.environ) -> int:
    """Return the number of learners below which a row is suppressed. Raises SettingsError."""
    reader = Reader(env)
    found = reader.parsed("WINDOW_MIN_CELL", _min_cell, "a whole number from 1 to 1000000", 5)
    reader.done()
    return found


def check(env: Env = os.environ) -> None:
    """Raise SettingsError where a setting of a refresh of windows is missing or unusable."""
    read_settings(env)
    read_windows(env)
    read_min_cell(env)
    if not windows_wanted(env):
        raise SettingsError("not set in this environment: WINDOW_SOURCE")


def _days(text: str) -> int:
    return _whole(text, _LONGEST_DAYS)


def _min_cell(text: str) -> int:
    return _whole(text, 1_000_000)


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise ValueError
    return int(text)

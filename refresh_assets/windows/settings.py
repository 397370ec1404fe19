"""The settings of the windows."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from refresh_assets.settings import Env, Reader, read

_DATE, _DAYS = "a date such as 2026-01-01", "a whole number of days from 1 to 3660"
_LONGEST_DAYS = 3660
_OWNERS = "owners with commas between them, each an e-mail address or a team such as team:data"
# What Dagster takes for an owner; a team's name is printable.
_OWNER = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}|team:[\w .:/-]*\w")


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
    return read(_windows_of, env)


def read_min_cell(env: Env = os.environ) -> int:
    """Return the number of learners below which a row is suppressed. Raises SettingsError."""
    return read(_min_cell_of, env)


def read_owners(env: Env = os.environ) -> tuple[str, ...]:
    """Return who owns the metrics, as Dagster writes owners. Raises SettingsError."""
    return read(_owners_of, env)


def read_max_delay(env: Env = os.environ) -> timedelta:
    """Return how long after its end a window may be missing before a person is told. Raises SettingsError."""
    return read(_max_delay_of, env)


def window_problems(env: Env = os.environ) -> Sequence[str]:
    """Return what is wrong with the settings of the windows, by name and without values; nothing where none is set."""
    reader = Reader(env)
    if windows_wanted(env):
        _windows_of(reader)
        _min_cell_of(reader)
        _max_delay_of(reader)
        _owners_of(reader)
    return reader.problems


def _windows_of(reader: Reader) -> WindowSettings:
    timezone = reader.parsed(
        "WINDOW_TIMEZONE" if reader.env.get("WINDOW_TIMEZONE", "").strip() else "REFRESH_TIMEZONE",
        lambda name: ZoneInfo(name).key,
        "an IANA time zone such as Europe/Berlin",
        "UTC",
    )
    start = reader.parsed("WINDOW_START", date.fromisoformat, _DATE, date(2024, 1, 1))
    return WindowSettings(
        cron=" ".join(reader.text("WINDOW_CRON").split()),
        timezone=timezone,
        start=datetime(start.year, start.month, start.day, tzinfo=ZoneInfo(timezone)),
        bootstrap=timedelta(days=reader.parsed("WINDOW_BOOTSTRAP_DAYS", _days, _DAYS, 7)),
        late=timedelta(days=reader.parsed("WINDOW_LATE_DAYS", _days, _DAYS, 7)),
    )


def _min_cell_of(reader: Reader) -> int:
    return reader.parsed("WINDOW_MIN_CELL", _min_cell, "a whole number from 1 to 1000000", 5)


def _max_delay_of(reader: Reader) -> timedelta:
    return timedelta(seconds=reader.seconds("WINDOW_MAX_DELAY"))


def _owners_of(reader: Reader) -> tuple[str, ...]:
    return reader.parsed("WINDOW_OWNERS", _owners, _OWNERS, ())


def _owners(text: str) -> tuple[str, ...]:
    owners = tuple(sorted({owner.strip() for owner in text.split(",")} - {""}))
    if not owners or not all(_OWNER.fullmatch(owner) for owner in owners):
        raise ValueError
    return owners


def _days(text: str) -> int:
    return _whole(text, _LONGEST_DAYS)


def _min_cell(text: str) -> int:
    return _whole(text, 1_000_000)


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
        raise ValueError
    return int(text)

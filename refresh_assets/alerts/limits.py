"""How long things may take before a person is told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from refresh_assets.settings import Env, Reader


@dataclass(frozen=True)
class Limits:
    """`max_age`: of a table's last verification. `stuck_after`: before a run starts. `beat`: between two heartbeats."""

    max_age: timedelta
    stuck_after: timedelta
    beat: timedelta

    @property
    def silent_after(self) -> timedelta:
        """The age of a last heartbeat from which on a run is suspected to be dead."""
        return 6 * self.beat

    @property
    def second_look(self) -> timedelta:
        """How long a run is suspected before it is ended: a machine that was asleep needs a moment to go on."""
        return 2 * self.beat


def read_limits(env: Env = os.environ) -> Limits:
    """Return the limits. Raises SettingsError."""
    reader = Reader(env)
    limits = Limits(
        max_age=timedelta(days=reader.parsed("REFRESH_MAX_AGE", _days, "a number of days from 0.00001 to 3650", 8.0)),
        stuck_after=timedelta(seconds=reader.seconds("REFRESH_STUCK_AFTER")),
        beat=timedelta(seconds=reader.seconds("REFRESH_HEARTBEAT")),
    )
    reader.done()
    return limits


def read_interval(env: Env = os.environ) -> int:
    """Return the whole seconds between two looks of the failure sensor. Raises SettingsError."""
    reader = Reader(env)
    seconds = reader.seconds("REFRESH_ALERT_INTERVAL")
    reader.done()
    return max(1, round(seconds))


def _days(text: str) -> float:
    days = float(text)
    if not 0.00001 <= days <= 3650:  # noqa: PLR2004
        raise ValueError
    return days

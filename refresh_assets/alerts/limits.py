"""How long things may take before a person is told."""

from __future__ import annotations

import os
from collections.abc import Callable
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


def limits_of(reader: Reader) -> Limits:
    """Return the limits; what is wrong with one is left with the reader, and its default is taken."""
    return Limits(
        max_age=timedelta(days=_number(reader, "REFRESH_MAX_AGE", "days", (0.0001, 3650), 8)),
        stuck_after=timedelta(seconds=_number(reader, "REFRESH_STUCK_AFTER", "seconds", (1, 604_800), 480)),
        beat=timedelta(seconds=_number(reader, "REFRESH_HEARTBEAT", "seconds", (0.1, 600), 10)),
    )


def usable_limits(env: Env = os.environ) -> Limits:
    """Return the limits, each that is unusable by its default; `alert_problems` names it."""
    return limits_of(Reader(env))


def interval_of(reader: Reader) -> int:
    """Return the whole seconds between two looks of the failure sensor, as `limits_of` does."""
    return max(1, round(_number(reader, "REFRESH_ALERT_INTERVAL", "seconds", (1, 600), 15)))


def usable_interval(env: Env = os.environ) -> int:
    """Return these seconds, or their default where the setting is unusable."""
    return interval_of(Reader(env))


def _number(reader: Reader, name: str, unit: str, bounds: tuple[float, float], default: float) -> float:
    least, most = bounds
    return reader.parsed(name, _between(least, most), f"a number of {unit} from {least} to {most}", default)


def _between(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text)
        if not least <= number <= most:
            raise ValueError
        return number

    return parse

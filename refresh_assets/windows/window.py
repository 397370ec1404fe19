"""A window: a half-open span of time [since, until) whose events are counted together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from refresh_assets.errors import RefreshError


class WindowError(RefreshError):
    """A span of time that is no window; nothing was looked at or changed."""


@dataclass(frozen=True, order=True)
class Window:
    """A half-open span [since, until) of time, in UTC.

    Raises WindowError where a bound has no time zone, or `until` does not come after `since`.
    """

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        for name, bound in (("since", self.since), ("until", self.until)):
            object.__setattr__(self, name, in_utc(bound, name))
        if self.until <= self.since:
            raise WindowError(f"until ({text(self.until)}) must come after since ({text(self.since)})")

    def __str__(self) -> str:
        return f"{text(self.since)}/{text(self.until)}"


def in_utc(moment: datetime, name: str) -> datetime:
    """Return the moment in UTC. Raises WindowError where it has no time zone or lies outside the calendar."""
    if moment.utcoffset() is None:
        raise WindowError(f"{name} ({moment.isoformat()}) has no time zone; write it as 2026-03-02T04:15+00:00")
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise WindowError(f"{name} ({moment.isoformat()}) lies outside the calendar") from None


def text(moment: datetime) -> str:
    """Return a moment as windows are written: to the minute where it is a whole one, with its offset."""
    return moment.isoformat(timespec="auto" if moment.second or moment.microsecond else "minutes")

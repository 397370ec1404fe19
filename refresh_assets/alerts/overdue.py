"""Which tables have gone unverified for too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from refresh_assets.alerts.memory import Memory

WATCHED = "watched"


@dataclass(frozen=True)
class Age:
    """A table with the instants from which its age counts: when it was last verified, else when it was first seen."""

    table: str
    verified_at: datetime | None
    first_seen_at: datetime | None
    limit: timedelta

    @property
    def counts_from(self) -> datetime | None:
        return self.verified_at or self.first_seen_at

    def overdue_since(self, now: datetime) -> datetime | None:
        """Return the instant at which the table became overdue, None where it is not."""
        begins = self.counts_from + self.limit if self.counts_from else None
        return begins if begins and now > begins else None


def watch(memory: Memory, tables: Iterable[str], now: datetime) -> Mapping[str, datetime]:
    """Return when each table was seen for the first time; one that is new is remembered from now on."""
    seen = memory.spells(WATCHED)
    # One that was seen in the future was seen by a clock that has been put right since.
    return {
        table: seen[table] if table in seen and seen[table] <= now else memory.begin(WATCHED, table, now)
        for table in tables
    }


def span(length: timedelta) -> str:
    """Write a length of time in its two largest units, for people: `3 d 4 h`, `12 min`."""
    minutes = max(0, int(length.total_seconds() // 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"

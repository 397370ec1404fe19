"""Which tables have gone unverified for too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from refresh_assets.alerts.memory import Memory

_WATCHED = "watched"


@dataclass(frozen=True)
class Age:
    """A table with the instant from which its age counts: when it was last verified, else when it was first seen."""

    table: str
    verified_at: datetime | None
    first_seen_at: datetime
    limit: timedelta

    @property
    def counts_from(self) -> datetime:
        return self.verified_at or self.first_seen_at

    @property
    def overdue_from(self) -> datetime:
        """The instant at which the table becomes, or became, overdue."""
        return self.counts_from + self.limit

    def is_overdue(self, now: datetime) -> bool:
        return now > self.overdue_from


def ages(memory: Memory, tables: Iterable[str], verified: Mapping[str, datetime], limit: timedelta) -> list[Age]:
    """Return the ages of tables; those that are seen for the first time are remembered from now on."""
    seen = dict(memory.spells(_WATCHED))
    found = []
    for table in tables:
        if table not in seen:
            seen[table] = memory.begin(_WATCHED, table, memory.now())
        found.append(Age(table, verified.get(table), seen[table], limit))
    return found


def span(length: timedelta) -> str:
    """Write a length of time in its two largest units, for people: `3 d 4 h`, `12 min`."""
    minutes = max(0, int(length.total_seconds() // 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"

"""How things stand, for people and for monitoring: tables, owed mail, the daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from refresh_assets.alerts.loads import LastLoad
from refresh_assets.alerts.outbox import Owed
from refresh_assets.alerts.overdue import Age, span
from refresh_assets.alerts.text import instant
from refresh_assets.alerts.windows import WindowsStatus

OWED_FOR = timedelta(minutes=15)


@dataclass(frozen=True)
class TableStatus:
    """A declared table; `load` is None where it was never loaded, or where its database does not say."""

    age: Age
    load: LastLoad | None


@dataclass(frozen=True)
class Status:
    """How things stood at `now`. `mail` says whether mail is configured; all instants are aware."""

    now: datetime
    tables: Sequence[TableStatus]
    owed: Owed
    mail: bool
    daemon_beat_at: datetime | None
    timezone: str
    windows: WindowsStatus | None = None

    @property
    def wrong(self) -> list[str]:
        """What a person should see to; the exit status is 1 where there is anything."""
        overdue = [row.age for row in self.tables if row.age.is_overdue(self.now)]
        found = [f"{age.table} is overdue: not verified for {self._since(age.counts_from)}" for age in overdue]
        oldest = self.owed.oldest_created_at
        if oldest is not None and self.now - oldest > OWED_FOR:
            found.append(f"mail is owed for {self._since(oldest)}")
        return [*found, *(self.windows.wrong if self.windows else ())]

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        for row in self.tables:
            yield f"{'FAILED' if row.age.is_overdue(self.now) else 'ok':<6} {row.age.table}: {self._table(row)}"
        if self.windows:
            yield self.windows.line()
        yield f"{'ok' if self.mail else '--':<6} mail: {self._mail()}"
        beat = self.daemon_beat_at
        alive = "no heartbeat of a daemon" if beat is None else f"the daemon's last heartbeat was {self._ago(beat)}"
        yield f"{'--':<6} daemon: {alive}"
        yield from (f"{'FAILED':<6} {text}" for text in self.wrong)

    def as_json(self) -> dict[str, Any]:
        return {
            "tables": [
                {
                    "table": row.age.table,
                    "loaded_at": _written(row.load.loaded_at if row.load else None),
                    "verified_at": _written(row.age.verified_at),
                    "age_seconds": (self.now - row.age.counts_from).total_seconds(),
                    "limit_seconds": row.age.limit.total_seconds(),
                    "rows": row.load.rows if row.load else None,
                    "overdue": row.age.is_overdue(self.now),
                }
                for row in self.tables
            ],
            "mail": {
                "configured": self.mail,
                "owed": self.owed.count,
                "oldest_at": _written(self.owed.oldest_created_at),
                "last_error": self.owed.last_error,
            },
            "daemon": {"heartbeat_at": _written(self.daemon_beat_at)},
            "windows": self.windows.as_json() if self.windows else None,
            "wrong": self.wrong,
        }

    def _table(self, row: TableStatus) -> str:
        verified = row.age.verified_at
        told = f"verified {self._ago(verified)}" if verified else "never verified"
        load = row.load
        loaded = f"loaded {self._ago(load.loaded_at)}, {load.rows:,} rows" if load else "no load is known"
        return f"{told} (limit {span(row.age.limit)}); {loaded}"

    def _mail(self) -> str:
        told = f"{self.owed.count} owed" if self.mail else f"nobody will be told of failures; {self.owed.count} owed"
        return told + (f"; the last error: {self.owed.last_error}" if self.owed.last_error else "")

    def _ago(self, when: datetime) -> str:
        return f"{instant(when, self.timezone)}, {self._since(when)} ago"

    def _since(self, when: datetime) -> str:
        return span(self.now - when)


def _written(when: datetime | None) -> str | None:
    return when.astimezone(timezone.utc).isoformat(timespec="seconds") if when else None

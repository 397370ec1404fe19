"""How things stand, for people and for monitoring: tables, owed mail, the daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from refresh_assets.alerts.loads import LastLoad
from refresh_assets.alerts.outbox import Owed
from refresh_assets.alerts.overdue import Age, span
from refresh_assets.alerts.text import counted, instant

OWED_FOR = LOOK_WITHIN = timedelta(minutes=15)
NOTHING = "nothing was loaded yet: `refresh-assets run` loads the tables"


@dataclass(frozen=True)
class TableStatus:
    """A declared table; `load` is None where it was never loaded, or where its database does not say."""

    age: Age
    load: LastLoad | None

    @property
    def never(self) -> bool:
        """Whether nothing is known of it: no load, no verification."""
        return self.load is None and self.age.verified_at is None


@dataclass(frozen=True)
class Part:
    """How another part of the product stands: a line for people, what monitoring gets by its name, what is wrong."""

    name: str
    line: str
    told: dict[str, Any]
    wrong: Sequence[str] = ()


@dataclass(frozen=True)
class Status:
    """How things stood at `now`; all instants are aware.

    `mail` says whether mail can be sent by the settings, `problems` what is wrong with those of alerts, `looked_at`
    when the failure sensor last looked, `loads_known` whether the history of loads can be read.
    """

    now: datetime
    tables: Sequence[TableStatus]
    loads_known: bool
    owed: Owed
    mail: bool
    problems: Sequence[str]
    looked_at: datetime | None
    daemon_beat_at: datetime | None
    timezone: str
    parts: Sequence[Part] = ()

    @property
    def wrong(self) -> list[str]:
        """What a person should see to; the exit status is 1 where there is anything."""
        found = list(self._wrong_tables())
        if not self.loads_known:
            found.append("the history of loads cannot be read")
        oldest = self.owed.oldest_created_at
        if oldest is not None and self.now - oldest > OWED_FOR:
            found.append(f"mail is owed for {self._since(oldest)}")
        if self.mail and (self.looked_at is None or self.now - self.looked_at > LOOK_WITHIN):
            when = f"last looked {self._since(self.looked_at)} ago" if self.looked_at else "never looked"
            found.append(f"nobody is told of failures: the sensor failure_mail {when}; does the daemon run, is it on?")
        found += [text for part in self.parts for text in part.wrong]
        return [*found, *(f"setting: {problem}" for problem in self.problems)]

    def _wrong_tables(self) -> Iterator[str]:
        if self.tables and all(row.never for row in self.tables):
            yield NOTHING
            return
        for row in self.tables:
            since = row.age.overdue_since(self.now)
            if since is not None:
                yield f"{row.age.table} is overdue: not verified for {self._since(since - row.age.limit)}"
            elif row.never:
                yield f"{row.age.table} was never loaded"

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        for row in self.tables:
            yield f"{'FAILED' if self._is_wrong(row) else 'ok':<6} {row.age.table}: {self._table(row)}"
        yield from (part.line for part in self.parts)
        yield f"{'ok' if self.mail else '--':<6} mail: {self._mail()}"
        beat = self.daemon_beat_at
        alive = "no heartbeat of a daemon" if beat is None else f"the daemon's last heartbeat was {self._ago(beat)}"
        yield f"{'--':<6} daemon: {alive}"
        looked = "never looked" if self.looked_at is None else f"last looked {self._ago(self.looked_at)}"
        yield f"{'--':<6} sensor: failure_mail {looked}"
        yield from (f"{'FAILED':<6} {text}" for text in self.wrong)

    def as_json(self) -> dict[str, Any]:
        return {
            "tables": [
                {
                    "table": row.age.table,
                    "loaded_at": _written(row.load.loaded_at if row.load else None),
                    "verified_at": _written(row.age.verified_at),
                    "age_seconds": self._age(row.age),
                    "limit_seconds": row.age.limit.total_seconds(),
                    "rows": row.load.rows if row.load else None,
                    "overdue": row.age.overdue_since(self.now) is not None,
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
            "sensor": {"looked_at": _written(self.looked_at)},
            **{part.name: part.told for part in self.parts},
            "wrong": self.wrong,
        }

    def _is_wrong(self, row: TableStatus) -> bool:
        return row.never or row.age.overdue_since(self.now) is not None

    def _age(self, age: Age) -> float | None:
        return (self.now - age.counts_from).total_seconds() if age.counts_from else None

    def _table(self, row: TableStatus) -> str:
        if row.never:
            return f"never loaded; `refresh-assets run --table {row.age.table}` does so"
        verified = row.age.verified_at
        told = f"verified {self._ago(verified)}" if verified else "never verified"
        load = row.load
        loaded = f"loaded {self._ago(load.loaded_at)}, {counted(load.rows, 'row')}" if load else "no load is known"
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

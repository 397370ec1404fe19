"""Windows loaded from a table of events into a database of its own, without Dagster's storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg import sql

from refresh_assets.cron import CronTicks
from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.settings import PostgresSettings
from refresh_assets.windows.due import Due, Plan, due, look_for_late_events
from refresh_assets.windows.grid import wished
from refresh_assets.windows.load import Loading, Result, load
from refresh_assets.windows.source import Seen, Staged
from refresh_assets.windows.window import Window

DAYS = "0 0 * * *"
START = datetime(2024, 1, 1, tzinfo=timezone.utc)
Event = tuple[str, str, str]


def at(text: str) -> datetime:
    """Return a moment; without a zone it is in UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def day(text: str) -> Window:
    """Return the window of a day in UTC."""
    return Window(at(text), at(text) + timedelta(days=1))


def today() -> datetime:
    """Return the midnight of UTC that this day began with; no day ends in mid-test."""
    return datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)


def crowd(when: str, course: str, count: int) -> list[Event]:
    """Return one event each of so many learners in a course."""
    return [(when, course, f"{course} {when} {number}") for number in range(count)]


@dataclass(frozen=True)
class TableOfEvents:
    """The plainest event log: the table `log` of the same database, all of its events of the kind `view`."""

    name: str = "log"
    column_dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
        for window in windows:
            conn.execute(
                "INSERT INTO pg_temp.window_cells SELECT %(since)s, %(until)s, course, 'view', count(*), "
                "count(DISTINCT learner), min(happened_at), max(happened_at) FROM public.log "
                "WHERE happened_at >= %(since)s AND happened_at < %(until)s GROUP BY course",
                {"since": window.since, "until": window.until},
            )
        return Staged(self._seen(conn, windows))

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        raise NotImplementedError

    @staticmethod
    def _seen(conn: Connection, windows: Sequence[Window]) -> dict[Window, Seen]:
        found = {}
        for window in windows:
            row: Any = conn.execute(
                "SELECT count(*), coalesce(max(id), 0) FROM public.log WHERE happened_at >= %s AND happened_at < %s",
                (window.since, window.until),
            ).fetchone()
            found[window] = Seen(window, row[0], str(row[1]))
        return found


@dataclass(frozen=True)
class LookingTable(TableOfEvents):
    """The same, with a connection of its own for the look."""

    conn: Connection | None = None

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        assert self.conn is not None
        return self._seen(self.conn, windows)


@dataclass
class WindowDesk:
    """A database with an event log, and the windows of it."""

    settings: PostgresSettings
    admin: psycopg.Connection[Any]
    source: LookingTable
    plan: Plan
    min_cell: int = 5

    def write(self, *events: Event) -> None:
        """Add events: when, course, learner."""
        with self.admin.cursor() as cursor:
            cursor.executemany("INSERT INTO log (happened_at, course, learner) VALUES (%s, %s, %s)", events)

    def cut(self, cron: str, zone: str = "UTC") -> None:
        """Cut windows otherwise from now on."""
        self.plan = Plan("etl", CronTicks(cron, zone, START), self.plan.source, timedelta(days=7), timedelta(days=7))

    def name_log(self, kind: str) -> None:
        """Say that the events are those of another kind of log from now on."""
        self.plan = replace(self.plan, source=kind)

    def load(self, *windows: Window, role: sql.Identifier | None = None, **changes: Any) -> Result:
        """Load windows on a session of their own, as another role where one is given."""
        result = Result()
        changes = {"lock_seconds": 2, **changes}
        with connect(self.settings, "test windows") as conn:
            if role is not None:
                conn.execute(sql.SQL("SET ROLE {role}").format(role=role))
            loading = Loading(self.plan, self.source, self.min_cell, **changes)
            for _done in load(conn, loading, windows, result):
                pass
        return result

    def load_span(self, since: str, until: str, **changes: Any) -> Result:
        wish = wished(self.plan.grid, at(since), at(until), datetime.now(timezone.utc))
        return self.load(*wish.windows, **changes)

    def due(self, now: str) -> Due:
        return due(self.admin, self.plan, at(now))

    def look(self, now: str) -> list[Window]:
        """Look for late events."""
        return look_for_late_events(self.admin, self.plan, self.source, at(now))

    def load_due(self, now: str) -> Result:
        self.look(now)
        return self.load(*self.due(now).windows, only_due=True)

    def rows(self, query: str = "SELECT * FROM etl.activity_metrics ORDER BY since, course, kind") -> list[Any]:
        return self.admin.execute(query).fetchall()

    def value(self, query: str) -> Any:
        row = self.admin.execute(query).fetchone()
        return row[0] if row else None

    def events(self) -> dict[str, dict[str, int | None]]:
        """Return the published numbers of events by day and course."""
        found: dict[str, dict[str, int | None]] = {}
        for since, course, count in self.rows("SELECT since, course, events FROM etl.activity_metrics ORDER BY 1, 2"):
            found.setdefault(f"{since:%Y-%m-%d}", {})[course] = count
        return found

    @property
    def marker(self) -> datetime | None:
        found: datetime | None = self.value("SELECT marker FROM etl.window_state")
        return found

    def picture(self) -> list[Any]:
        """Return everything that a refused or failed load must leave as it is."""
        return [
            self.rows("SELECT xmin::text, * FROM etl.activity_metrics ORDER BY since, course, kind"),
            self.rows("SELECT xmin::text, * FROM etl.window_loads ORDER BY since"),
            self.rows("SELECT * FROM etl.window_state"),
        ]


@pytest.fixture
def windows(database: dict[str, str]) -> Iterator[WindowDesk]:
    settings = PostgresSettings(
        database["PGHOST"],
        int(database["PGPORT"]),
        database["PGUSER"],
        database["PGDATABASE"],
        database["PGPASSWORD"],
    )
    with connect(settings, "test admin") as admin, connect(settings, "test look") as looking:
        admin.execute("SET TimeZone = 'UTC'")
        admin.execute(
            "CREATE TABLE log (id bigserial, happened_at timestamptz NOT NULL, course text NOT NULL, learner text)"
        )
        desk = WindowDesk(
            settings,
            admin,
            LookingTable(conn=looking),
            Plan("etl", CronTicks(DAYS, "UTC", START), "moodle", timedelta(days=7), timedelta(days=7)),
        )
        yield desk

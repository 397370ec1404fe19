"""Event logs to be counted: a table as Moodle lays it out, tracking logs as Open edX writes them, and what is counted.

`Counting` is a session with the tables that a source fills; `counting.cells(source, windows)` are the exact cells as
(window's number, course, kind): (events, learners, first, last), `counting.rows(...)` what may be shown of them,
each with whether it is suppressed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.postgres.embedded import EmbeddedServer
from refresh_assets.settings import read_postgres
from refresh_assets.windows.source import EventSource, Staged
from refresh_assets.windows.source_settings import read_logs
from refresh_assets.windows.suppress import suppress
from refresh_assets.windows.tracking_logs import TrackingLogs
from refresh_assets.windows.window import Window
from refresh_assets_tests.postgres_fixtures import server_settings

MARCH = datetime(2026, 3, 2, 4, 15, tzinfo=timezone.utc)
NORTH = "course-v1:Org+North+1"
Key = tuple[int, str, str]
Cell = tuple[Any, Any, Any, Any]
Row = tuple[Any, Any, Any, Any, bool]

_CELLS = (
    "since timestamptz, until timestamptz, course text, kind text, events bigint, learners bigint, "
    "first_event timestamptz, last_event timestamptz"
)
MOODLE = """
CREATE TABLE {name} (
    id bigserial PRIMARY KEY, eventname varchar(255) NOT NULL DEFAULT '', component varchar(100) NOT NULL,
    action varchar(100) NOT NULL, target varchar(100) NOT NULL, objecttable varchar(50), objectid bigint,
    crud varchar(1) NOT NULL DEFAULT 'r', edulevel smallint NOT NULL DEFAULT 0, contextid bigint NOT NULL DEFAULT 1,
    contextlevel bigint NOT NULL DEFAULT 50, contextinstanceid bigint NOT NULL DEFAULT 1, userid bigint NOT NULL,
    courseid bigint, relateduserid bigint, anonymous smallint NOT NULL DEFAULT 0, other text,
    timecreated bigint NOT NULL, origin varchar(10), ip varchar(45), realuserid bigint
)
"""


def window(day: int = 0, days: int = 1) -> Window:
    """Return the window of so many days that begins so many days after 2 March 2026, 04:15 UTC."""
    return Window(MARCH + timedelta(days=day), MARCH + timedelta(days=day + days))


def moment(hours: float = 1, day: int = 0) -> datetime:
    """Return a moment so many hours after the beginning of a day's window."""
    return MARCH + timedelta(days=day, hours=hours)


def event(at: datetime | str, user: Any = 7, course: Any = NORTH, kind: Any = "play_video", **more: Any) -> bytes:
    """Return a line of a tracking log, without its newline."""
    time = at if isinstance(at, str) else at.isoformat(timespec="microseconds")
    found = {"event_type": kind, "time": time, "context": {"course_id": course, "user_id": user}, **more}
    return json.dumps(found).encode()


def log_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@dataclass
class Counting:
    """A session in which sources are staged, each time from empty tables."""

    conn: Connection
    progress: list[int] = field(default_factory=list)
    staged: Staged | None = None

    def stage(self, source: EventSource, windows: Sequence[Window]) -> Staged:
        self.progress = []
        self.conn.execute("TRUNCATE pg_temp.window_cells, pg_temp.window_rows")
        with self.conn.transaction():
            self.staged = source.stage(self.conn, windows, self.progress.append)
        return self.staged

    def cells(self, source: EventSource, windows: Sequence[Window]) -> dict[Key, Cell]:
        self.stage(source, windows)
        return self._table("window_cells", windows)

    def rows(self, source: EventSource, windows: Sequence[Window], min_cell: int = 5) -> dict[Key, Row]:
        self.stage(source, windows)
        suppress(self.conn, min_cell)
        return self._table("window_rows", windows)

    def _table(self, name: str, windows: Sequence[Window]) -> dict[Key, Any]:
        rows: list[Any] = self.conn.execute(f"SELECT * FROM pg_temp.{name}").fetchall()
        found: dict[Key, Any] = {}
        for since, until, course, kind, *numbers in rows:
            key = (list(windows).index(Window(since, until)), course, kind)
            assert key not in found
            found[key] = tuple(numbers)
        return found


@pytest.fixture
def counting(postgres_server: EmbeddedServer) -> Iterator[Counting]:
    # Temporary tables are the session's own, and need no database of their own.
    with connect(read_postgres({**server_settings(postgres_server), "PGDATABASE": "postgres"}), "test") as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.execute(f"CREATE TEMPORARY TABLE window_cells ({_CELLS})")
        conn.execute(f"CREATE TEMPORARY TABLE window_rows ({_CELLS}, suppressed boolean NOT NULL)")
        yield Counting(conn)


LIVE = "tracking.log"
PLAY = (0, NORTH, "play_video")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "logs"
    found.mkdir()
    return found


@pytest.fixture
def logs(folder: Path, tmp_path: Path) -> TrackingLogs:
    return logs_at(str(folder), tmp_path)


def logs_at(place: str, tmp_path: Path, **settings: str) -> TrackingLogs:
    return TrackingLogs(read_logs({"WINDOW_LOGS": place, "REFRESH_HOME": str(tmp_path / "home"), **settings}))


def events(users: int, hours: float = 1, day: int = 0) -> list[bytes]:
    """Return a line for each of so many users."""
    return [event(moment(hours, day) + timedelta(seconds=user), user=user) for user in range(1, users + 1)]

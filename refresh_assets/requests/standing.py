"""How requests stand, for people and for monitoring."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from psycopg import sql

from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.status import Part
from refresh_assets.alerts.text import instant
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.settings import read_requests
from refresh_assets.requests.storage import connect_plainly, exist
from refresh_assets.requests.task import TASK
from refresh_assets.settings import Env, read_timezone

# A request that waits for longer than this past its instant has nobody who claims it.
DUE_FOR = timedelta(minutes=10)
_STANDING = queries("refresh_assets.requests", "sql/standing.sql")


@dataclass(frozen=True)
class RequestsStatus:
    """Numbers of requests at `now`; `others` are rows of other task names, which are left alone."""

    waiting: int
    due: int
    oldest_due_at: datetime | None
    next_at: datetime | None
    running: int
    others: int
    now: datetime
    parked: int
    timezone: str

    @property
    def wrong(self) -> list[str]:
        found = []
        if self.oldest_due_at is not None and self.now - self.oldest_due_at > DUE_FOR:
            found.append(f"a request is due for {span(self.now - self.oldest_due_at)} and was not started")
        if self.parked:
            found.append(f"{self.parked} request(s) failed for good; move or cancel each")
        return found

    def __str__(self) -> str:
        """Return what a person reads, in a line."""
        told = f"{self.waiting} waiting"
        if self.due:
            told += f" ({self.due} due)"
        told += f", {self.running} running, {self.parked} failed for good"
        if self.next_at:
            told += f"; the next is for {instant(self.next_at, self.timezone)}"
        if self.others:
            told += f"; {self.others} row(s) of other task names are left alone"
        return told

    @property
    def part(self) -> Part:
        """What `refresh-assets status` tells."""
        told = {
            "waiting": self.waiting,
            "due": self.due,
            "oldest_due_at": _written(self.oldest_due_at),
            "next_at": _written(self.next_at),
            "running": self.running,
            "failed": self.parked,
            "others": self.others,
        }
        return Part("requests", f"{'FAILED' if self.wrong else 'ok':<6} requests: {self}", told, self.wrong)


def requests_part(env: Env = os.environ) -> Part | None:
    """Return what `refresh-assets status` tells of requests, as `requests_status` does."""
    found = requests_status(env)
    return found.part if found else None


def requests_status(env: Env = os.environ) -> RequestsStatus | None:
    """Return how requests stand, None where nobody ever asked for one.

    Raises SettingsError, and RefreshError where the server cannot be reached.
    """
    schema = read_requests(env).schema
    with connect_plainly(env, "refresh-assets status") as conn:
        return standing(conn, schema, read_timezone(env)) if exist(conn, schema) else None


def standing(conn: Connection, schema: str, zone: str) -> RequestsStatus:
    """Count the requests; instants are told to people in the time zone of this IANA name."""
    values = {"task": TASK}
    name = sql.Identifier(schema)
    row: Any = conn.execute(_STANDING["standing"].format(schema=name), values).fetchone()
    parked: Any = conn.execute(_STANDING["parked"].format(schema=name), values).fetchone()
    return RequestsStatus(*(*row, parked[0], zone))


def _written(when: datetime | None) -> str | None:
    return when.astimezone(timezone.utc).isoformat(timespec="seconds") if when else None

"""The tables of requests in a database of their own, with the settings in this process's environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from refresh_assets.postgres.connect import Connection
from refresh_assets.requests import client
from refresh_assets.requests.claim import Claim, bind, claim, plan
from refresh_assets.requests.fence import seal
from refresh_assets.requests.storage import connect_requests

NOON = datetime(2026, 1, 4, 12, 0, tzinfo=timezone.utc)
TASKS = "refresh_requests.scheduled_tasks"
BACK = timedelta(days=1)


@dataclass
class Counter:
    """Where requests are handed in: a connection of an application, and one of the product's own."""

    conn: psycopg.Connection[Any]
    own: Connection
    env: dict[str, str]

    def ask(self, *names: str, when: datetime = NOON, **options: Any) -> None:
        for name in names:
            assert client.schedule_if_not_exists(self.conn, name, when, **options)

    def claim(self, now: datetime = NOON, limit: int = 10) -> Sequence[Claim]:
        return claim(self.own, limit, now=now)

    def names(self, now: datetime = NOON, limit: int = 10) -> list[str]:
        return [found.instance for found in self.claim(now, limit)]

    def start(self, name: str, now: datetime = NOON, parts: Sequence[str] = ("datasets",)) -> Claim:
        """Claim the one request that is due and give it a run that began."""
        (found,) = self.claim(now)
        assert found.instance == name
        plan(self.own, found.token, parts)
        assert bind(self.own, found.token, f"run {found.attempt}", started=True)
        return found

    def write(self, found: Claim, run_id: str | None = None, part: str = "datasets") -> None:
        """Write a part of a request as its run does."""
        with self.own.transaction():
            seal(self.own, found.token, run_id or f"run {found.attempt}", part)

    def get(self, name: str) -> client.Request:
        found = client.get(self.conn, name)
        assert found is not None
        return found

    def states(self) -> dict[str, str]:
        return {found.instance: found.state for found in client.list(self.conn)}

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.own.execute(statement.encode(), values or None)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture
def counter(database: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    for name in ("DAGSTER_HOME", "REFRESH_REQUESTS_SCHEMA", "REFRESH_REQUEST_ATTEMPTS", "REFRESH_REQUEST_RETRY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in database.items():
        monkeypatch.setenv(name, value)
    with connect_requests() as own, application(database) as conn:
        yield Counter(conn, own, database)


def application(database: dict[str, str], **options: Any) -> psycopg.Connection[Any]:
    """Open a connection of an application, in autocommit mode unless it wants otherwise."""
    named = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    keywords = {keyword: database[name] for keyword, name in named.items()}
    return psycopg.connect(**{**keywords, "autocommit": True, "connect_timeout": 10, **options})

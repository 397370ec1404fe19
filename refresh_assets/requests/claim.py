"""Claiming what is due: by the database's clock, each request by one claimer, under a token that only it knows.

Every function is a statement of its own. `now` stands in for the database's clock, so that tests need not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.statements import completed
from refresh_assets.requests.task import TASK, checked_time

_CLAIM = queries("refresh_assets.requests", "sql/claim.sql")
_MOST = 10_000


@dataclass(frozen=True)
class Claim:
    """A request of which this claimer has the present attempt (1, 2, …); `done` are the parts that are done already."""

    instance: str
    token: str
    raw: bytes | None
    priority: int | None
    attempt: int
    done: frozenset[str]


@dataclass(frozen=True)
class InWork:
    """A claimed request and its run; `run_id` is None while there is none."""

    instance: str
    token: str
    run_id: str | None


def claim(
    conn: Connection, limit: int = 10, *, now: datetime | None = None, schema: str | None = None
) -> Sequence[Claim]:
    """Claim at most so many requests that are due: by priority, those without one last, then by their instants."""
    return _claims(conn, "claim", schema, limit=limit, now=checked_time(now))


def held(
    conn: Connection,
    limit: int = 10,
    *,
    untouched: timedelta,
    now: datetime | None = None,
    schema: str | None = None,
) -> Sequence[Claim]:
    """Return claims without a run that nobody looked at for so long; to be given a run again, under the same token."""
    return _claims(conn, "held", schema, limit=limit, untouched=untouched.total_seconds(), now=checked_time(now))


def plan(conn: Connection, token: str, parts: Sequence[str], *, schema: str | None = None) -> None:
    """Write down of which parts a request consists; it is done when all of them are."""
    conn.execute(_statement("plan", schema), {"token": token, "parts": [*parts]})


def bind(conn: Connection, token: str, run_id: str, *, started: bool = False, schema: str | None = None) -> bool:
    """Give a claim its one run; False where it has another, or is no longer this claim. `started`: by its process."""
    values = {"token": token, "run_id": run_id, "started": started}
    return conn.execute(_statement("bind", schema), values).rowcount == 1


def beat(conn: Connection, token: str, *, now: datetime | None = None, schema: str | None = None) -> bool:
    """Keep a claim alive; False where it is no longer this claim."""
    values = {"task": TASK, "token": token, "now": checked_time(now)}
    return conn.execute(_statement("beat", schema), values).rowcount == 1


def in_work(conn: Connection, *, schema: str | None = None) -> Sequence[InWork]:
    """Return all claims, the earliest first."""
    rows: Any = conn.execute(_statement("in_work", schema), {"task": TASK, "limit": _MOST}).fetchall()
    return [InWork(*row) for row in rows]


def _claims(conn: Connection, statement: str, schema: str | None, **values: Any) -> Sequence[Claim]:
    rows: Any = conn.execute(_statement(statement, schema), {"task": TASK, **values}).fetchall()
    return [
        Claim(instance, token, raw, priority, attempt, frozenset(done))
        for instance, token, raw, priority, attempt, done in rows
    ]


def _statement(name: str, schema: str | None) -> sql.Composed:
    return completed(_CLAIM[name], schema)

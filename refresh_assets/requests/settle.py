"""How a claimed request ends: done, tried again later, or failed for good. Each end is one statement.

`now` stands in for the database's clock, so that tests need not wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.settings import GROWTH, LONGEST_DELAY, RequestSettings, read_requests
from refresh_assets.requests.statements import completed
from refresh_assets.requests.task import TASK, checked_time
from refresh_assets.secrets import mask

# With a claim's token below the 63 characters that Postgres keeps of an application's name.
SESSION = "refresh-assets request "
LONGEST_ERROR = 20_000
KEPT_DAYS, FAILED_KEPT_DAYS, KEPT = 90, 365, 10_000
MOST_FAILED = 200
_SETTLE = queries("refresh_assets.requests", "sql/settle.sql")


@dataclass(frozen=True)
class Stale:
    """A claim whose run is gone: no heartbeat and no connection, seen so at two looks."""

    instance: str
    token: str
    run_id: str | None
    beat_at: datetime


@dataclass(frozen=True)
class Failed:
    """A request that failed for good; `number` tells it from others that did at that very instant."""

    number: int
    token: str
    instance: str
    raw: bytes | None
    attempts: int
    run_id: str | None
    error: str
    ended_at: datetime


def complete(conn: Connection, token: str, *, now: datetime | None = None, schema: str | None = None) -> bool:
    """End a request as done; False where a part is not done, it asks for something else now, or has another claim."""
    return _happened(conn, "complete", schema, token=token, now=now)


def fail(
    conn: Connection,
    token: str,
    error: str,
    *,
    now: datetime | None = None,
    settings: RequestSettings | None = None,
) -> datetime | None:
    """End an attempt as failed: the request is due again later, or parked as failed after its last attempt.

    The delay before the second attempt is the settings', each further one four times that, at most an hour. Returns
    the instant of the next attempt, None where there is none.
    """
    settings = settings or read_requests(os.environ)
    values = {
        "token": token,
        "error": _text(error),
        "now": checked_time(now),
        "delay": settings.delay,
        "growth": GROWTH,
        "longest": LONGEST_DELAY,
        "attempts": settings.attempts,
    }
    row: Any = conn.execute(_statement("retry", settings.schema), values).fetchone()
    if row is not None:
        due: datetime = row[0]
        return due.astimezone(timezone.utc)
    park(conn, token, error, now=now, schema=settings.schema)
    return None


def postpone(
    conn: Connection,
    token: str,
    why: str,
    *,
    now: datetime | None = None,
    settings: RequestSettings | None = None,
) -> bool:
    """Let a request be due again later without counting this attempt as failed."""
    settings = settings or read_requests(os.environ)
    return _happened(conn, "postpone", settings.schema, token=token, error=_text(why), delay=settings.delay, now=now)


def park(conn: Connection, token: str, error: str, *, now: datetime | None = None, schema: str | None = None) -> bool:
    """End a request as failed for good; it is kept with its error, and does not become due again by itself."""
    return _happened(conn, "park", schema, token=token, error=_text(error), outcome="failed", now=now)


def call_off(conn: Connection, token: str, why: str, *, schema: str | None = None) -> bool:
    """End a request whose run a person cancelled; it is neither tried again nor told."""
    return _happened(conn, "park", schema, token=token, error=_text(why), outcome="cancelled", now=None)


def release_strays(
    conn: Connection, silent: timedelta, *, now: datetime | None = None, schema: str | None = None
) -> int:
    """Let requests be due again that are picked without a claim and without a heartbeat; return how many."""
    values = {"task": TASK, "silent": silent.total_seconds(), "now": checked_time(now)}
    return conn.execute(_statement("release_strays", schema), values).rowcount


def stale(
    conn: Connection,
    silent: timedelta,
    second_look: timedelta,
    *,
    now: datetime | None = None,
    schema: str | None = None,
) -> Sequence[Stale]:
    """Return the claims whose run began and is gone.

    A process may be kept from writing for longer than a heartbeat may be late, so its connection counts as well.
    """
    values = {
        "silent": silent.total_seconds(),
        "look": second_look.total_seconds(),
        "session": SESSION,
        "now": checked_time(now),
    }
    rows: Any = conn.execute(_statement("suspect", schema), values).fetchall()
    return [Stale(instance, token, run_id, beat_at) for instance, token, run_id, beat_at, dead in rows if dead]


def failed(conn: Connection, since: datetime, after: int = 0, *, schema: str | None = None) -> Sequence[Failed]:
    """Return the next requests that failed for good behind an instant and a number, in that order, at most 200."""
    values = {"since": since, "after": after, "limit": MOST_FAILED}
    rows: Any = conn.execute(_statement("failed", schema), values).fetchall()
    return [Failed(*row) for row in rows]


def prune(conn: Connection, *, schema: str | None = None) -> None:
    """Remove outcomes past their time or beyond the newest 10,000, and what is left of requests that are gone."""
    limits = {"days": KEPT_DAYS, "failed_days": FAILED_KEPT_DAYS, "keep": KEPT}
    conn.execute(_statement("prune_outcomes", schema), limits)
    conn.execute(_statement("prune_claims", schema))


def _happened(conn: Connection, statement: str, schema: str | None, *, now: datetime | None, **values: Any) -> bool:
    return conn.execute(_statement(statement, schema), {**values, "now": checked_time(now)}).rowcount == 1


def _text(error: str) -> str:
    # Postgres takes no NUL, and UTF-8 no lone surrogate.
    text = mask(error).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"


def _statement(name: str, schema: str | None) -> sql.Composed:
    return completed(_SETTLE[name], schema)

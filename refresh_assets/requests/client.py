"""Asking for one refresh, at an instant, from Python: a row of the table of requests.

Every function takes a connection of the caller and never commits, so that asking is part of the caller's transaction:
what is rolled back was never asked. The connection leads to the database of the refreshed tables (PGDATABASE).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.settings import read_requests
from refresh_assets.requests.statements import completed
from refresh_assets.requests.task import (
    TASK,
    BadRequestError,
    checked_name,
    checked_priority,
    checked_text,
    checked_time,
    decode,
    encode,
)

MOST_LISTED = 1000
_CLIENT = queries("refresh_assets.requests", "sql/client.sql")

AnyConnection = psycopg.Connection[Any]


class _Kept:
    """Stands for what is not given, so that None can be given."""


KEEP: Final = _Kept()


class RequestRunningError(BadRequestError):
    """The request is being run, so it can be neither moved nor cancelled."""


class UnknownRequestError(BadRequestError):
    """There is no request of this name."""


@dataclass(frozen=True)
class Request:
    """A request as it stands, or as it ended; all instants are in UTC.

    `state` is waiting, running, done, failed (it used up its attempts or could not be taken) or cancelled. `failures`
    counts failed attempts of one that is not over, and all attempts of one that is. `error` is the last one.
    """

    instance: str
    state: str
    when: datetime
    raw: bytes | None
    priority: int | None
    failures: int
    error: str | None
    run_id: str | None
    created_at: datetime
    at: datetime | None
    """The last heartbeat of a running one, the end of one that is over."""

    @property
    def data(self) -> Mapping[str, Any] | None:
        """What is asked for, None where it cannot be read."""
        try:
            return decode(self.raw)
        except BadRequestError:
            return None


def schedule_if_not_exists(
    conn: AnyConnection,
    instance: str,
    when: datetime | None = None,
    data: Mapping[str, Any] | None = None,
    *,
    priority: int | None = None,
) -> bool:
    """Ask for a refresh at an instant, None for now; False where a request of this name waits or runs already.

    Raises BadRequestError for a naive time, and for a name, data or a priority that are not allowed.
    """
    values = _values(instance, when, data, priority)
    return bool(_rows(conn, "schedule_if_not_exists", values))


def schedule_or_reschedule(
    conn: AnyConnection,
    instance: str,
    when: datetime | None = None,
    data: Mapping[str, Any] | None = None,
    *,
    priority: int | None = None,
) -> None:
    """Ask for a refresh at an instant, None for now, in place of what a request of this name asked before.

    Raises RequestRunningError where that one is being run, and BadRequestError as `schedule_if_not_exists` does.
    """
    values = _values(instance, when, data, priority)
    if not _rows(conn, "schedule_or_reschedule", values):
        raise _running(instance)


def reschedule(
    conn: AnyConnection,
    instance: str,
    when: datetime | None = None,
    data: Mapping[str, Any] | _Kept | None = KEEP,
) -> None:
    """Move a request to another instant, None for now, with all its attempts before it; one that failed is asked anew.

    Raises RequestRunningError, UnknownRequestError, and BadRequestError as `schedule_if_not_exists` does.
    """
    keep = isinstance(data, _Kept)
    values = {
        "task": TASK,
        "instance": checked_text(instance),
        "at": checked_time(when),
        "data": None if isinstance(data, _Kept) else encode(data),
        "keep": keep,
    }
    if _rows(conn, "reschedule", values):
        return
    _must_not_run(conn, instance)
    if not _rows(conn, "revive", values):
        raise _unknown(instance)


def cancel(conn: AnyConnection, instance: str) -> None:
    """Take a request back before it is run; one that failed is taken off the list.

    Raises RequestRunningError and UnknownRequestError.
    """
    values = {"task": TASK, "instance": checked_text(instance)}
    if _rows(conn, "cancel", values):
        return
    _must_not_run(conn, instance)
    if not _rows(conn, "dismiss", values):
        raise _unknown(instance)


def get(conn: AnyConnection, instance: str) -> Request | None:
    """Return a request that waits or runs, else how the last one of this name ended, or None."""
    values = {"task": TASK, "instance": instance, "limit": 1}
    found = _rows(conn, "live", values) or _rows(conn, "outcomes", values)
    return _request(found[0]) if found else None


def history(conn: AnyConnection, instance: str, *, limit: int = MOST_LISTED) -> Sequence[Request]:
    """Return how requests of a name ended, the latest first."""
    return [_request(row) for row in _rows(conn, "outcomes", {"task": TASK, "instance": instance, "limit": limit})]


def list(  # noqa: A001 - read as requests.list
    conn: AnyConnection, *, limit: int = MOST_LISTED
) -> Sequence[Request]:
    """Return the requests that run, that wait, in the order of their instants, and that failed, the latest first."""
    values = {"task": TASK, "instance": None, "limit": limit}
    return [_request(row) for statement in ("live", "parked") for row in _rows(conn, statement, values)]


def _must_not_run(conn: AnyConnection, instance: str) -> None:
    if _rows(conn, "is_running", {"task": TASK, "instance": instance}):
        raise _running(instance)


def _running(instance: str) -> RequestRunningError:
    return RequestRunningError(f"the request {instance!r} is being run; it can be neither moved nor cancelled now")


def _unknown(instance: str) -> UnknownRequestError:
    return UnknownRequestError(f"there is no request {instance!r} that waits or has failed")


def _values(
    instance: str, when: datetime | None, data: Mapping[str, Any] | None, priority: int | None
) -> dict[str, Any]:
    return {
        "task": TASK,
        "instance": checked_name(instance),
        "at": checked_time(when),
        "data": encode(data),
        "priority": checked_priority(priority),
    }


def _rows(conn: AnyConnection, statement: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
    schema = read_requests(os.environ).schema
    try:
        # In binary form instants can be read whatever DateStyle the caller's session has.
        with conn.cursor(row_factory=tuple_row, binary=True) as cursor:
            return cursor.execute(completed(_CLIENT[statement], schema), values).fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise RefreshError(
            f"there is no table of requests in schema {schema!r} of this database yet; "
            "`refresh-assets request list` makes it, and so does the daemon"
        ) from error


def _request(row: tuple[Any, ...]) -> Request:
    instance, state, when, raw, priority, failures, error, run_id, created_at, at = row
    return Request(
        instance, state, _utc(when), raw, priority, failures, error, run_id, _utc(created_at), at and _utc(at)
    )


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(timezone.utc)

"""Database errors: which are tried again, and how the others are told without the numbers of a row."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
import tenacity
from psycopg import errors

from refresh_assets.errors import RefreshError

ATTEMPTS = 5
T = TypeVar("T")
_log = logging.getLogger(__name__)


def patiently(what: Callable[..., T], *args: Any) -> T:
    """Call it, and again, at most five times in all, where the database gave way to another transaction."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((errors.SerializationFailure, errors.DeadlockDetected)),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=5),
        before_sleep=lambda _state: _log.warning("the database gave way to another transaction; trying again"),
        reraise=True,
    )
    return attempts(what, *args)


class explained:  # noqa: N801 - reads as what it does in a with statement
    """Raise a RefreshError in place of a database error, whose details may hold the numbers of a row."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, psycopg.Error):
            raise RefreshError(f"{self._what}: {words(error)}") from None


def words(error: psycopg.Error) -> str:
    """Return what the database said, without the details, which may hold the numbers of a suppressed row."""
    said = error.diag.message_primary
    if isinstance(error, errors.LockNotAvailable):
        return "lock time-out: another session holds a lock that is needed; the next run tries again"
    return f"{said} (SQLSTATE {error.sqlstate})" if said else str(error).strip() or type(error).__name__

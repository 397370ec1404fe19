"""The fence: of several runs for one request, only the one that holds its token may commit what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.statements import completed
from refresh_assets.requests.task import TASK

# On the run of a request: its name is under the tag of `alerts.owner`.
TOKEN_TAG = "refresh/request_token"  # noqa: S105 - the tag's name
_CLAIM = queries("refresh_assets.requests", "sql/claim.sql")


class RequestLostError(RefreshError):
    """The request of this run was given to another one, moved or removed; what this run writes does not count."""


def seal(conn: Connection, token: str, run_id: str, part: str, *, schema: str | None = None) -> None:
    """Write down, in the open transaction that writes it, that a part of a request is done.

    The row of the request stays locked until the transaction ends. Raises RequestLostError where the token is not in
    it any more, or belongs to another run; the transaction must then be rolled back.
    """
    statement = completed(_CLAIM["seal"], schema)
    values = {"task": TASK, "token": token, "run_id": run_id, "part": part}
    if conn.execute(statement, values).rowcount != 1:
        raise RequestLostError(
            "the request of this run was given to another run, moved or removed meanwhile; nothing was changed"
        )


def fence(run_id: str, tags: Mapping[str, str], part: str) -> Callable[[Connection], None] | None:
    """Return what the writing transaction of a run has to pass at its end; nothing where it is no request's run."""
    token = tags.get(TOKEN_TAG)
    if token is None:
        return None

    def guard(conn: Connection) -> None:
        seal(conn, token, run_id, part)

    return guard

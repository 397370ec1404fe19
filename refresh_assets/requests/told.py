"""Requests that failed for good, for the sensor that tells a person: each once."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from refresh_assets.alerts.text import Facts, one_line
from refresh_assets.alerts.trouble import Trouble
from refresh_assets.requests.settings import read_requests
from refresh_assets.requests.settle import Failed, failed
from refresh_assets.requests.storage import connect_plainly, exist
from refresh_assets.settings import Env

_SHOWN = 500


def failed_requests(env: Env, since: datetime, after: int) -> Sequence[Trouble]:
    """Return the next requests that failed for good since then, of those at that very instant behind that number.

    Raises SettingsError, and RefreshError or psycopg.Error where the database cannot be reached.
    """
    schema = read_requests(env).schema
    with connect_plainly(env, "refresh-assets alerts") as conn:
        found = failed(conn, since, after, schema=schema) if exist(conn, schema) else ()
    return [_trouble(request) for request in found]


def _trouble(request: Failed) -> Trouble:
    name = shlex.quote(request.instance)
    asked = one_line((request.raw or b"").decode("utf-8", "replace"), _SHOWN)
    times = "its only attempt" if request.attempts == 1 else f"the last of its {request.attempts} attempts"
    facts = Facts(
        about=f"request {request.instance}",
        happened="failed for good",
        what=f"The request {request.instance} failed in {times} and is not tried again. "
        + (f"It asked for {asked}." if asked else "It asked for all tables."),
        reason=request.error,
        since=request.ended_at,
        advice=f"Mend what the reason says, then `refresh-assets request move {name}` asks again, now; "
        f"`refresh-assets request cancel {name}` takes it off the list.",
    )
    return Trouble(request.token, facts, run_id=request.run_id or "", number=request.number)

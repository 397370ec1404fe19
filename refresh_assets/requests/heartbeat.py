"""The heartbeat of a request: its run renews the row's `last_heartbeat`, on a connection of its own."""

from __future__ import annotations

import os

from refresh_assets.alerts.limits import usable_limits
from refresh_assets.alerts.pulse import name_session
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.requests.claim import beat
from refresh_assets.requests.fence import RequestLostError
from refresh_assets.requests.settings import read_requests
from refresh_assets.requests.settle import SESSION
from refresh_assets.requests.storage import connect_plainly
from refresh_assets.settings import Env

_CLAIM = queries("refresh_assets.requests", "sql/claim.sql")


class RequestBeat:
    """What a `Pulse` does for a claimed request."""

    what = "the heartbeat of this run's request"

    def __init__(self, token: str, env: Env = os.environ) -> None:
        self._token = token
        self._env = env
        self._schema = read_requests(env).schema

    def open(self) -> Connection:
        conn = connect_plainly(self._env, SESSION + self._token)
        try:
            name_session(conn, SESSION + self._token)
            idle = str(round(usable_limits(self._env).silent_after.total_seconds() * 1000))
            conn.execute(_CLAIM["vanish"], {"idle": idle})
        except BaseException:
            conn.close()
            raise
        return conn

    def beat(self, conn: Connection) -> None:
        """Renew the heartbeat. Raises RequestLostError where it is no longer this claim."""
        if not beat(conn, self._token, schema=self._schema):
            raise RequestLostError("the request was given to another run, moved or removed; this run changes nothing")

    def end(self, conn: Connection) -> None:
        """Leave the last heartbeat; how the run ended is told by Dagster."""

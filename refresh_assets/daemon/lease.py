"""The lease: a session advisory lock beside Dagster's storage, which the server frees when we fall silent."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import psycopg

from refresh_assets.alerts.storage import connect_storage
from refresh_assets.daemon.pooler import refuse_pooler
from refresh_assets.daemon.timing import Timing
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import Env

SESSION = "refresh-assets lease"
# The connection's own time-outs: what the server does not answer for so long is lost to us.
_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 4000,
}
_LEASE = queries("refresh_assets.daemon", "sql/lease.sql")


class Lease:
    """A session that holds the lease or tries to get it; nothing else ever runs in it."""

    def __init__(self, conn: Connection, timing: Timing, *, in_transaction: bool) -> None:
        self._conn = conn
        self._in_transaction = in_transaction
        milliseconds = {"lease": str(int(timing.lease * 1000))}
        conn.execute(_LEASE["session"], milliseconds)
        if in_transaction:
            conn.execute("BEGIN")
        else:
            conn.execute(_LEASE["idle_session"], milliseconds)
        self.pid = int(self._one("pid"))
        """The process of the server that serves this session."""

    @classmethod
    def open(cls, env: Env = os.environ, timing: Timing = Timing(), *, in_transaction: bool | None = None) -> Lease:  # noqa: B008
        """Connect. Raises RefusedError behind a pooler, RefreshError where the server cannot be reached, SettingsError.

        A server before PostgreSQL 14 has no time-out for idle sessions; there the session stays in a transaction,
        renewed with every ping, for which all have one. `in_transaction` asks for that way on any server.
        """
        conn = connect_storage(env, SESSION, _OPTIONS)
        try:
            refuse_pooler(conn, lambda: connect_storage(env, SESSION, _OPTIONS))
            if in_transaction is None:
                row = conn.execute(_LEASE["knows_idle_session_timeout"]).fetchone()
                in_transaction = not (row and row[0])
            return cls(conn, timing, in_transaction=in_transaction)
        except BaseException:
            conn.close()
            raise

    def try_lock(self) -> bool:
        """Try to get the lease. Raises psycopg.Error where the session is gone."""
        self._renew()
        return bool(self._one("try"))

    def skew(self) -> float:
        """Return the seconds that this host's clock is ahead of the server's. Raises psycopg.Error."""
        self._renew()
        return time.time() - float(self._one("clock"))

    def is_free(self) -> bool:
        """Tell whether nobody holds the lease. Raises psycopg.Error where the session is gone."""
        self._renew()
        return bool(self._one("is_free"))

    def ping(self) -> bool:
        """Tell whether this very session holds the lease. Raises psycopg.Error where it is gone."""
        self._renew()
        return bool(self._one("ping"))

    def release(self) -> None:
        """Give the lease up and close the session."""
        with contextlib.suppress(psycopg.Error):
            self._one("unlock")
        self.close()

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._conn.close()

    def _renew(self) -> None:
        """Begin the transaction anew, in one message: frozen between two, we would keep the lock."""
        if self._in_transaction:
            self._conn.execute(_LEASE["renew"])

    def _one(self, statement: str) -> Any:
        row = self._conn.execute(_LEASE[statement]).fetchone()
        return row[0] if row else None

"""A pulse: something that a living process does again and again, from a thread and on a connection of its own."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Protocol

import psycopg

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import masked
from refresh_assets.settings import Env

END_SECONDS = 5.0
_HEARTBEAT = queries("refresh_assets.alerts", "sql/heartbeat.sql")


class Beat(Protocol):
    """What is done at each beat; `what` names it in a warning."""

    what: str

    def open(self) -> Connection:
        """Open the connection."""

    def beat(self, conn: Connection) -> None:
        """Beat once."""

    def end(self, conn: Connection) -> None:
        """Do what is to be done after the last beat."""


class Pulse:
    """Beats from a daemon thread while the with-block runs; what goes wrong is only told, and the next beat tried."""

    def __init__(self, beat: Beat, every: timedelta, warn: Callable[[str], object], env: Env = os.environ) -> None:
        self._beat = beat
        self._every = every.total_seconds()
        self._warn = warn
        self._env = env
        self._conn: Connection | None = None
        self._told = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(END_SECONDS)

    def _work(self) -> None:
        while True:
            self._try(self._once)
            if self._done.wait(self._every):
                break
        self._try(self._end)
        self._close()

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
            self._told = False
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._close()
            if not self._told:
                self._told = True
                with contextlib.suppress(Exception):
                    self._warn(f"{self._beat.what} could not be written: {masked(error, self._env)}")

    def _once(self) -> None:
        if self._conn is None:
            self._conn = self._beat.open()
        self._beat.beat(self._conn)

    def _end(self) -> None:
        if self._conn is not None:
            self._beat.end(self._conn)

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()


def name_session(conn: Connection, name: str) -> None:
    """Give a session a name to be found by; the server is told to notice within a minute that our host is gone."""
    conn.execute(_HEARTBEAT["session"], {"session": name})

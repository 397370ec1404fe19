"""The fence: no connection of a leader's scheduler works in another leader's term.

Dagster's storage opens a connection for each of its operations. Each takes an advisory lock, shared, for as long as it
is open, and looks whose term it is. Who begins a term ends the sessions that hold that lock and takes it alone
meanwhile: so what an earlier leader writes is written before, or never, however long that leader was frozen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool

from refresh_assets.daemon.guard import end_at_once
from refresh_assets.postgres.queries import queries

_FENCE = queries("refresh_assets.daemon", "sql/fence.sql")


class Fence:
    """Stands before every connection that SQLAlchemy opens in this process, once it is installed."""

    def __init__(self, lost: Callable[[str], object] = end_at_once) -> None:
        self._lost = lost
        self._term: int | None = None
        self._allowed: set[int] | None = None

    def install(self) -> None:
        event.listen(Pool, "connect", self._enter)

    def begin(self, term: int) -> None:
        """From now on let connections work in this term only."""
        self._term = term

    def end(self, allowed: Iterable[int] = ()) -> None:
        """From now on let no threads but the present one and those allowed open a connection."""
        self._allowed = {threading.get_ident(), *allowed}
        self._term = None

    def _enter(self, connection: Any, _record: object) -> None:
        if self._allowed is not None and threading.get_ident() not in self._allowed:
            connection.close()
            # Ends the thread, and nothing else, without a word.
            raise SystemExit
        # Another thread may end the term at any moment.
        mine = self._term
        if mine is None:
            return
        with connection.cursor() as cursor:
            cursor.execute(_FENCE["enter"].as_string(None))
            (term,) = cursor.fetchone()
        # The lock is the session's and stays.
        connection.commit()
        if term != mine:
            connection.close()
            if self._allowed is None:
                self._lost(f"term {mine} of this leader is over, another leads")
            raise SystemExit

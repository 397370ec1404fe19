"""What is to be known of all published rows of a file of which one chunk after the other stands on the stage.

How many are kept, the values of the filter's column, and the keys of the rows left out: no key may stand in two rows,
and those of the kept ones are seen in the table.
"""

from __future__ import annotations

from typing import Any

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.keep import Kept, allowed, filter_value, keeps, kept_of
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.stage import WholeFileNeededError
from refresh_assets.published.table.unique import RepeatedKeyError, check_key

SPELLINGS, LEFT_OUT = "refresh_spellings", "refresh_left_out"
_CHUNKS = queries("refresh_assets.published.table", "sql/chunks.sql")


class ChunkTotals:
    """The counts and keys so far, in temporary tables of the open transaction."""

    def __init__(self, conn: Connection, load: Load) -> None:
        self.rows = 0
        """The rows kept so far."""
        self._conn = conn
        self._load = load
        self._left_out = False
        if load.table.filter is not None:
            key = [column for column in load.table.published if column.name in load.table.key]
            conn.execute(_CHUNKS["create_spellings"])
            conn.execute(_CHUNKS["create_left_out"].format(columns=compose.definitions(key)))

    def add(self, rows: int) -> sql.Composable:
        """Take note of the chunk that stands on the stage, of so many rows; return the condition that keeps them."""
        kept = self._count(rows)
        self.rows += kept
        if kept == rows:
            return compose.TRUE
        self._left_out = True
        key, keep = compose.names(self._load.table.key), keeps(self._load)
        self._conn.execute(_CHUNKS["add_left_out"].format(key=key, keep=keep))
        return keep

    def total(self) -> Kept:
        """Return what was kept of the file."""
        if self._load.table.filter is None:
            return Kept(self.rows, ())
        return kept_of(self._conn, self._load, sql.Identifier("pg_temp", SPELLINGS))

    def check_left_out(self, target: sql.Identifier) -> None:
        """Look whether the rows left out have keys of their own; the target holds the kept ones.

        Raises WholeFileNeededError where they have not.
        """
        if not self._left_out:
            return
        same_key = compose.same_key(self._load.table.key, "left_out", "target")
        row: Any = self._conn.execute(_CHUNKS["also_kept"].format(target=target, same_key=same_key)).fetchone()
        if row[0]:
            raise WholeFileNeededError("a key may be repeated")
        try:
            check_key(self._conn, self._load.table.key, LEFT_OUT)
        except RepeatedKeyError as error:
            raise WholeFileNeededError("a key may be repeated") from error

    def _count(self, rows: int) -> int:
        """Return how many rows of the chunk on the stage are kept."""
        if self._load.table.filter is None:
            return rows
        row: Any = self._conn.execute(
            _CHUNKS["add_spellings"].format(
                found=filter_value(self._load.table.filter),
                trimmed=compose.trimmed(sql.Identifier("found")),
                allowed=allowed(self._load),
            )
        ).fetchone()
        return int(row[0])

"""The stage: the published rows in a temporary table of the open transaction, every one of them sound."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.chunks import table_bytes
from refresh_assets.published.table.keep import Kept, count_kept, keeps
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.parts import PAGE_BYTES
from refresh_assets.published.table.send import copy_file
from refresh_assets.published.table.unique import check_key

TABLE, TRANSFORMED = "refresh_stage", "refresh_transformed"
MEMORY_BYTES = 1 << 28
_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")


class WholeFileNeededError(Exception):
    """The file must be staged whole, for the reason that the text tells."""


@dataclass(frozen=True)
class Source:
    """The rows that the target shall hold: those of a temporary table that meet the condition `keep`.

    `key_checked` tells whether the key is known to be unique among all published rows, `whole` that all of them stand
    in the table, and not one part after the other.
    """

    table: str
    keep: sql.Composable
    kept: Kept
    key_checked: bool
    whole: bool = True

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.table)

    @property
    def rows(self) -> int:
        return self.kept.rows

    def check_key(self, conn: Connection, key: Sequence[str]) -> None:
        """Look for repeated keys among all published rows. Raises RepeatedKeyError, and WholeFileNeededError."""
        if self.key_checked:
            return
        if not self.whole:
            raise WholeFileNeededError("a key may be repeated")
        check_key(conn, key, self.table)


def stage(conn: Connection, load: Load, progress: Callable[[int], None], *, keyed_target: bool) -> Source:
    """Copy the file into a temporary table and return the rows to keep.

    The key is left unchecked only where all published rows go into a table whose own key shows what is repeated.
    Raises RefreshError where the file's rows are not as many as promised or its bytes changed, CopyFailedError and
    RepeatedKeyError where a row is not sound.
    """
    create_stage(conn, load, table_bytes(load.layout))
    copy_file(conn, load, ("pg_temp", TABLE), progress)
    kept = count_kept(conn, load, sql.Identifier("pg_temp", TABLE))
    checked = not (keyed_target and kept.rows == load.rows and not load.table.transformed)
    if checked and not _key_has_expression(load):
        check_key(conn, load.table.key, TABLE)
    keep = compose.TRUE if kept.rows == load.rows else keeps(load)
    if not load.table.transformed:
        return Source(TABLE, keep, kept, checked)
    _transform(conn, load, keep)
    if _key_has_expression(load):
        check_key(conn, load.table.key, TRANSFORMED)
    return Source(TRANSFORMED, compose.TRUE, kept, checked)


def create_stage(conn: Connection, load: Load, size: int) -> None:
    """Make the empty stage for rows that take about so many bytes in a table."""
    _ask_for_memory(conn, size)
    conn.execute(_STAGE["create"].format(columns=compose.definitions(load.table.published)))


def empty_stage(conn: Connection) -> None:
    conn.execute(_STAGE["empty"])


def _ask_for_memory(conn: Connection, size: int) -> None:
    """Let the stage be kept in the server's memory where it may fit, since it is read several times."""
    if size > MEMORY_BYTES:
        # It goes to disk whatever it is given.
        return
    pages = min(2 * size, MEMORY_BYTES) // PAGE_BYTES
    # A session cannot change it any more once it has used a temporary table; then it is as it is.
    with contextlib.suppress(psycopg.errors.InvalidParameterValue), conn.transaction():
        conn.execute(_STAGE["memory"].format(pages=sql.Literal(pages)))


def _key_has_expression(load: Load) -> bool:
    """Tell whether the key is made by an expression: then what is published in its place need not be unique."""
    return any(column.expression is not None for column in load.table.columns if column.name in load.table.key)


def _transform(conn: Connection, load: Load, condition: sql.Composable) -> None:
    """Evaluate the expressions once, so that what is compared is what is stored."""
    columns = load.table.columns
    conn.execute(_STAGE["create_transformed"].format(columns=compose.definitions(columns)))
    try:
        with conn.transaction():
            conn.execute(
                _STAGE["transform"].format(
                    columns=compose.names(column.name for column in columns),
                    expressions=compose.expressions(load.table),
                    keep=condition,
                )
            )
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
        raise RefreshError(
            f"table {load.table.name!r}: a column expression failed: {error.diag.message_primary}"
            + (f" (column {error.diag.column_name!r})" if error.diag.column_name else "")
            + "; mend the expression in its defs.yaml and raise transform_version"
        ) from error

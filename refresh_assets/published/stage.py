"""The stage: the published rows in a temporary table of the open transaction, every one of them sound."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published import compose
from refresh_assets.published.header import match_header
from refresh_assets.published.load import FilterCount, Load

BLOCK_BYTES = 1 << 18
_STAGE = queries("refresh_assets.published", "sql/stage.sql")


class CopyFailedError(Exception):
    """The server refused a row of the file; `cause` is its error. Told to people by `explain`."""

    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__(str(cause))
        self.cause = cause


class RepeatedKeyError(Exception):
    """The key is not unique among the published rows; `keys` are up to three repeated ones, as text."""

    def __init__(self, keys: list[tuple[str, ...]]) -> None:
        super().__init__(str(keys))
        self.keys = keys


@dataclass(frozen=True)
class Source:
    """The rows that the target shall hold: those of a temporary table that meet the condition `keep`."""

    table: str
    keep: sql.Composable
    rows: int
    filter_counts: tuple[FilterCount, ...]

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.table)


def stage(conn: Connection, load: Load, progress: Callable[[int], None]) -> Source:
    """Copy the file into a temporary table and return the rows to keep.

    Raises RefreshError where the file's rows are not as many as promised or its bytes changed, CopyFailedError and
    RepeatedKeyError where a row is not sound.
    """
    header = match_header(load.layout.header, [column.name for column in load.table.published], load.table.file)
    conn.execute(_STAGE["create"].format(columns=compose.definitions(load.table.published)))
    staged = _copy(conn, load, header, progress)
    if staged != load.rows:
        raise RefreshError(f"staged {staged} rows; the manifest says {load.rows}")
    _check_key(conn, load, "refresh_stage")
    counts = _count_values(conn, load)
    condition = compose.keep(load.table, load.allowed)
    kept = sum(count.rows for count in counts if count.kept) if load.table.filter else staged
    if not load.table.transformed:
        return Source("refresh_stage", condition, kept, counts)
    _transform(conn, load, condition)
    return Source("refresh_transformed", compose.TRUE, kept, counts)


def _copy(conn: Connection, load: Load, header: tuple[str, ...], progress: Callable[[int], None]) -> int:
    """Send the bytes behind the header to the server; return the number of rows it read."""
    try:
        with load.path.open("rb") as file, conn.cursor() as cursor:
            with cursor.copy(_STAGE["copy"].format(columns=compose.names(header))) as copy:
                _send(file, copy, load, progress)
            return cursor.rowcount
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise CopyFailedError(error) from error


def _send(file: BinaryIO, copy: psycopg.Copy, load: Load, progress: Callable[[int], None]) -> None:
    """Send what follows the header. Raises RefreshError, cancelling the COPY, where the bytes are other ones."""
    seen = hashlib.sha256(file.read(load.layout.data_offset))
    sent = 0
    while block := file.read(BLOCK_BYTES):
        seen.update(block)
        copy.write(block)
        sent += len(block)
        progress(sent)
    if seen.hexdigest() != load.sha256:
        raise RefreshError(
            f"{load.table.file}: the downloaded file at {load.path} was changed after it was verified "
            f"(sha256 {seen.hexdigest()}, verified as {load.sha256}); delete it and run again"
        )


def _check_key(conn: Connection, load: Load, table: str) -> None:
    key = compose.names(load.table.key)
    try:
        with conn.transaction():
            conn.execute(_STAGE["unique"].format(table=sql.Identifier(table), key=key))
    except psycopg.errors.UniqueViolation as error:
        rows: list[Any] = conn.execute(_STAGE["duplicates"].format(table=sql.Identifier(table), key=key)).fetchall()
        raise RepeatedKeyError([tuple(str(value) for value in row) for row in rows]) from error


def _count_values(conn: Connection, load: Load) -> tuple[FilterCount, ...]:
    if load.table.filter is None:
        return ()
    rows: list[Any] = conn.execute(
        _STAGE["count_values"].format(
            trimmed=compose.trimmed(load.table.filter.column), allowed=sql.Literal(list(load.allowed or ()))
        )
    ).fetchall()
    return tuple(FilterCount(None if is_null else value, count, kept) for value, is_null, count, kept in rows)


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
    if any(column.expression is not None for column in columns if column.name in load.table.key):
        _check_key(conn, load, "refresh_transformed")

"""The stage: the published rows in a temporary table of the open transaction, every one of them sound."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.csv_file.header import match_header
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import RowFilter
from refresh_assets.published.table.load import FilterCount, Load
from refresh_assets.settings import BLANKS

BLOCK_BYTES = 1 << 18
MEMORY_BYTES = 1 << 28
PAGE_BYTES = 8192
# Told to people; more would fill the memory where a column has a value of its own in every row.
VALUES_COUNTED = 100
_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")


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
    """The rows that the target shall hold: those of a temporary table that meet the condition `keep`.

    `rows` is their number, `filter_counts` the most frequent values of the filter's column. `key_checked` tells
    whether the key is known to be unique among all published rows.
    """

    table: str
    keep: sql.Composable
    rows: int
    filter_counts: tuple[FilterCount, ...]
    key_checked: bool

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.table)


def stage(conn: Connection, load: Load, progress: Callable[[int], None], *, keyed_target: bool) -> Source:
    """Copy the file into a temporary table and return the rows to keep.

    The key is left unchecked only where all published rows go into a table whose own key shows what is repeated.
    Raises RefreshError where the file's rows are not as many as promised or its bytes changed, CopyFailedError and
    RepeatedKeyError where a row is not sound.
    """
    header = match_header(load.layout.header, [column.name for column in load.table.published], load.table.file)
    _ask_for_memory(conn, load)
    conn.execute(_STAGE["create"].format(columns=compose.definitions(load.table.published)))
    staged = _copy(conn, load, header, progress)
    if staged != load.rows:
        raise RefreshError(f"staged {staged} rows; the manifest says {load.rows}")
    kept, counts = _count_values(conn, load)
    checked = not (keyed_target and kept == staged and not load.table.transformed)
    if checked and not _key_has_expression(load):
        check_key(conn, load.table.key, "refresh_stage")
    keep = compose.TRUE if kept == staged else _keep(load)
    if not load.table.transformed:
        return Source("refresh_stage", keep, kept, counts, checked)
    _transform(conn, load, keep)
    if _key_has_expression(load):
        check_key(conn, load.table.key, "refresh_transformed")
    return Source("refresh_transformed", compose.TRUE, kept, counts, checked)


def _ask_for_memory(conn: Connection, load: Load) -> None:
    """Let the stage be kept in the server's memory where it is small enough, since it is read several times."""
    pages = min(2 * load.layout.bytes, MEMORY_BYTES) // PAGE_BYTES
    # A session cannot change it any more once it has used a temporary table; then it is as it is.
    with contextlib.suppress(psycopg.errors.InvalidParameterValue), conn.transaction():
        conn.execute(_STAGE["memory"].format(pages=sql.Literal(pages)))


def _key_has_expression(load: Load) -> bool:
    """Tell whether the key is made by an expression: then what is published in its place need not be unique."""
    return any(column.expression is not None for column in load.table.columns if column.name in load.table.key)


def _keep(load: Load) -> sql.Composable:
    if load.table.filter is None:
        return compose.TRUE
    found, allowed = _filter_value(load.table.filter), load.allowed or ()
    # Nearly all are found as they are allowed, and need not be trimmed.
    return sql.SQL("({} OR {})").format(
        compose.among(found, [value for value in allowed if value == value.strip(BLANKS)]),
        compose.among(compose.trimmed(found), allowed),
    )


def _filter_value(row_filter: RowFilter) -> sql.Composed:
    return compose.as_bytes(sql.Identifier(row_filter.column))


def _copy(conn: Connection, load: Load, header: tuple[str, ...], progress: Callable[[int], None]) -> int:
    """Send the bytes behind the header to the server; return the number of rows it read."""
    try:
        with load.path.open("rb") as file, conn.cursor() as cursor:
            with cursor.copy(_STAGE["copy"].format(columns=compose.names(header))) as copy:
                _send(file, copy, load, progress)
            return cursor.rowcount
    except OSError as error:
        raise RefreshError(
            f"{load.table.file}: {load.path} can no longer be read ({error.strerror}); run again to fetch it anew"
        ) from error
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


def check_key(conn: Connection, key: Sequence[str], table: str) -> None:
    """Check that the key is unique among all rows of a temporary table. Raises RepeatedKeyError."""
    pieces = {"table": sql.Identifier(table), "key": compose.names(key)}
    try:
        with conn.transaction():
            conn.execute(_STAGE["unique"].format(**pieces))
            # It has proved what it was made for; nothing reads by it.
            raise psycopg.Rollback
    except psycopg.errors.UniqueViolation as error:
        rows: list[Any] = conn.execute(
            _STAGE["duplicates"].format(**pieces, texts=compose.texts(key, "staged"))
        ).fetchall()
        raise RepeatedKeyError(rows) from error


def _count_values(conn: Connection, load: Load) -> tuple[int, tuple[FilterCount, ...]]:
    """Return the number of rows to keep, and how many rows have each of the filter's most frequent values."""
    if load.table.filter is None:
        return load.rows, ()
    rows: list[Any] = conn.execute(
        _STAGE["count_values"].format(
            found=_filter_value(load.table.filter),
            trimmed=compose.trimmed(sql.Identifier("found")),
            allowed=sql.Literal(list(load.allowed or ())),
            most=sql.Literal(VALUES_COUNTED),
        )
    ).fetchall()
    counts = tuple(FilterCount(value, count, kept) for value, count, kept, _ in rows)
    return (rows[0][3] or 0) if rows else 0, counts


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

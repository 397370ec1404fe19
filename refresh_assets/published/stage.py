"""The stage: the published rows in a temporary table of the open transaction, every one of them sound."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as altered
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
MEMORY_BYTES = 1 << 28
PAGE_BYTES = 8192
# A filter's value has one spelling, seldom a few: with a blank before it or behind it.
SPELLINGS = 100
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
    """The rows that the target shall hold: those of a temporary table that meet the condition `keep`.

    `rows` is their number, `staged` that of all published rows. `key_checked` tells whether the key is known to be
    unique among all published rows.
    """

    table: str
    keep: sql.Composable
    rows: int
    staged: int
    filter_counts: tuple[FilterCount, ...]
    key_checked: bool = False

    @property
    def left_out(self) -> int:
        return self.staged - self.rows

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.table)


def stage(conn: Connection, load: Load, progress: Callable[[int], None]) -> Source:
    """Copy the file into a temporary table and return the rows to keep.

    The key is checked where the rows are transformed; elsewhere the caller sees to it, who may learn it by the way.
    Raises RefreshError where the file's rows are not as many as promised or its bytes changed, CopyFailedError and
    RepeatedKeyError where a row is not sound.
    """
    header = match_header(load.layout.header, [column.name for column in load.table.published], load.table.file)
    _ask_for_memory(conn, load)
    conn.execute(_STAGE["create"].format(columns=compose.definitions(load.table.published)))
    staged = _copy(conn, load, header, progress)
    if staged != load.rows:
        raise RefreshError(f"staged {staged} rows; the manifest says {load.rows}")
    source = _filter(conn, load)
    if not load.table.transformed:
        return source
    check_key(conn, load.table.key, source.table)
    _transform(conn, load, source.keep)
    return altered(source, table="refresh_transformed", keep=compose.TRUE, key_checked=True)


def _ask_for_memory(conn: Connection, load: Load) -> None:
    """Let the stage be kept in the server's memory where it is small enough, since it is read several times."""
    pages = min(2 * load.layout.bytes, MEMORY_BYTES) // PAGE_BYTES
    # A session cannot change it any more once it has used a temporary table; then it is as it is.
    with contextlib.suppress(psycopg.errors.InvalidParameterValue), conn.transaction():
        conn.execute(_STAGE["memory"].format(pages=sql.Literal(pages)))


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


def check_key(conn: Connection, key: Sequence[str], table: str) -> None:
    """Check that the key is unique among all rows of a temporary table. Raises RepeatedKeyError."""
    pieces = {"table": sql.Identifier(table), "key": compose.names(key)}
    try:
        with conn.transaction():
            conn.execute(_STAGE["unique"].format(**pieces))
            # It has proved what it was made for; nothing reads by it.
            raise psycopg.Rollback
    except psycopg.errors.UniqueViolation as error:
        rows: list[Any] = conn.execute(_STAGE["duplicates"].format(**pieces)).fetchall()
        raise RepeatedKeyError([tuple(str(value) for value in row) for row in rows]) from error


def _filter(conn: Connection, load: Load) -> Source:
    """Count the staged rows by the value of the filter's column, and return which of them are kept."""
    if load.table.filter is None:
        return Source("refresh_stage", compose.TRUE, load.rows, load.rows, ())
    allowed = load.allowed or ()
    found = compose.as_bytes(sql.Identifier(load.table.filter.column))
    rows: list[Any] = conn.execute(
        _STAGE["count_values"].format(
            found=found,
            trimmed=compose.trimmed(sql.Identifier("found")),
            allowed=sql.Literal(list(allowed)),
            most=sql.Literal(SPELLINGS),
        )
    ).fetchall()
    counts = tuple(FilterCount(None if is_null else value, count, kept) for value, is_null, count, kept, _ in rows)
    kept = sum(count.rows for count in counts if count.kept)
    spellings = [spelling for *_, is_kept, some in rows if is_kept for spelling in some]
    if kept == load.rows:
        keep: sql.Composable = compose.TRUE
    elif len(spellings) < SPELLINGS:
        # As they are found, so that not every row is trimmed once more.
        keep = compose.among(found, spellings)
    else:
        keep = compose.among(compose.trimmed(found), allowed)
    return Source("refresh_stage", keep, kept, load.rows, counts)


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
        check_key(conn, load.table.key, "refresh_transformed")

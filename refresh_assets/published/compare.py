"""What changed between two files of one table, both of the cache: compared by the server, nothing of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.published.files import PublishedFile
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.published.table.load import Row
from refresh_assets.published.table.send import BLOCK_BYTES

_COMPARE = queries("refresh_assets.published", "sql/compare.sql")
_FETCHED = 200


@dataclass(frozen=True)
class Difference:
    """A row that is `added`, `changed` or `removed`; `old` or `new` is None where the row is not in that file.

    Values are the texts of the files, in the order of `Comparison.columns`.
    """

    kind: str
    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class Comparison:
    """Two files compared; `columns` are those that both have, `only_old` and `only_new` those of one alone."""

    columns: tuple[str, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    added: int
    changed: int
    removed: int
    _rows: Callable[[], Iterator[Difference]]

    def rows(self) -> Iterator[Difference]:
        """Yield the differences in the order of the key, in flat memory, while the comparison is open."""
        return self._rows()


@contextmanager
def comparing(
    conn: Connection, table: Table, old: PublishedFile, new: PublishedFile, *, statement_seconds: float
) -> Iterator[Comparison]:
    """Compare two files by the table's key, as texts; both hold temporary tables until the end.

    Raises RefreshError where a file lacks the key or a row has another number of fields than the header.
    """
    old_columns, new_columns = _names(table, old), _names(table, new)
    shared = tuple(name for name in new_columns if name in old_columns)
    lacking = [name for name in table.key if name not in shared]
    if lacking:
        raise RefreshError(
            f"{table.file}: the key column {lacking[0]!r} is not in both files, so their rows cannot be matched"
        )
    with conn.transaction(force_rollback=True):
        limit(conn, lock_seconds=statement_seconds, statement_seconds=statement_seconds)
        _stage(conn, "refresh_old", old_columns, old)
        _stage(conn, "refresh_new", new_columns, new)
        added, changed, removed = _compare(conn, table.key, shared)
        yield Comparison(
            columns=shared,
            only_old=tuple(name for name in old_columns if name not in shared),
            only_new=tuple(name for name in new_columns if name not in shared),
            added=added,
            changed=changed,
            removed=removed,
            _rows=lambda: _listed(conn, [shared.index(name) for name in table.key], len(shared)),
        )


def _names(table: Table, file: PublishedFile) -> tuple[str, ...]:
    """Return the file's columns under their declared names, where they are declared."""
    declared = {column.name.strip().casefold(): column.name for column in table.published}
    header = file.layout.header
    return tuple(name if name in declared.values() else declared.get(name.strip().casefold(), name) for name in header)


def _stage(conn: Connection, name: str, columns: Sequence[str], file: PublishedFile) -> None:
    table = sql.Identifier("pg_temp", name)
    texts = compose.definitions(Column(column, "text") for column in columns)
    conn.execute(_COMPARE["create"].format(table=sql.Identifier(name), columns=texts))
    try:
        with file.path.open("rb") as stream, conn.cursor() as cursor:
            stream.seek(file.layout.data_offset)
            with cursor.copy(_COMPARE["copy"].format(table=table, columns=compose.names(columns))) as copy:
                while block := stream.read(BLOCK_BYTES):
                    copy.write(block)
    except psycopg.DataError as error:
        raise RefreshError(f"{file.name} (sha256 {file.sha256}): {error.diag.message_primary}") from error
    conn.execute(_COMPARE["analyze"].format(table=table))


def _compare(conn: Connection, key: Sequence[str], columns: Sequence[str]) -> tuple[int, int, int]:
    sides = [(side, place, name) for side in ("old", "new") for place, name in enumerate(columns)]
    conn.execute(
        _COMPARE["differences"].format(
            old_mark=compose.name("ctid", "old"),
            new_mark=compose.name("ctid", "new"),
            columns=compose.COMMA.join(
                sql.SQL("{} AS {}").format(compose.name(name, side), _value(side, place)) for side, place, name in sides
            ),
            same_key=compose.same_key(key, "old", "new"),
            differs=sql.SQL("ROW({}) IS DISTINCT FROM ROW({})").format(
                compose.names(columns, "old"), compose.names(columns, "new")
            ),
        )
    )
    row: Any = conn.execute(_COMPARE["counts"]).fetchone()
    return int(row[0]), int(row[1]), int(row[2])


def _listed(conn: Connection, key: Sequence[int], width: int) -> Iterator[Difference]:
    order = compose.COMMA.join(
        sql.SQL("coalesce({}, {})").format(_value("old", place), _value("new", place)) for place in key
    )
    cursor: Any
    with conn.cursor(name="refresh_differences") as cursor:
        cursor.itersize = _FETCHED
        for kind, *values in cursor.execute(_COMPARE["listed"].format(key=order)):
            old, new = tuple(values[:width]), tuple(values[width:])
            yield Difference(kind, None if kind == "added" else old, None if kind == "removed" else new)


def _value(side: str, place: int) -> sql.Identifier:
    """Return the name of a value among the differences; a column's own name may stand on both sides."""
    return sql.Identifier(f"{side} {place}")

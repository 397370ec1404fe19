"""After a failure: which line, which column and which value of the published file the server did not take."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, fix_formats
from refresh_assets.published.csv_file.locate import (
    Record,
    Values,
    first_wrong_width,
    record_at_copy_line,
    records_with_keys,
    width_problem,
)
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import Column
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.refused import NotTakenError, not_taken, shown, words
from refresh_assets.published.table.send import CopyFailedError
from refresh_assets.published.table.unique import RepeatedKeyError


def explain(conn: Connection, load: Load, error: CopyFailedError | RepeatedKeyError | NotTakenError) -> RefreshError:
    """Return the error to tell; `conn` is outside of any transaction."""
    if isinstance(error, NotTakenError):
        return not_taken(load, error)
    if isinstance(error, RepeatedKeyError):
        return _explain_key(load, error)
    header = load.header
    record = _record_of(load, error)
    if record is None:
        return RefreshError(f"{load.table.file}: {words(error.cause)}")
    if len(record.values) != len(header):
        return RefreshError(f"{load.table.file}: {width_problem(record, header)}; the publisher must mend the file")
    by_name = {column.name: column for column in load.table.published}
    for name, value in zip(header, record.values, strict=True):
        problem = _problem(conn, by_name[name], value)
        if problem is not None:
            return RefreshError(
                f"{load.table.file}: {record.place}: column {name}: {problem}; the publisher must mend the file"
            )
    return RefreshError(f"{load.table.file}: {record.place}: {words(error.cause)}")


def _record_of(load: Load, error: CopyFailedError) -> Record | None:
    if isinstance(error.cause, psycopg.errors.BadCopyFileFormat):
        return first_wrong_width(load.path, load.layout)
    # In every language of the server this line of the context begins with the table's name or with COPY and the name,
    # and the first number behind it is the line. Other lines may be of functions that have the name in theirs.
    found = re.search(rf"^(?:COPY )?{re.escape(error.into)}\D*?(\d+)", error.cause.diag.context or "", re.MULTILINE)
    return record_at_copy_line(load.path, load.layout, int(found[1])) if found else None


def _problem(conn: Connection, column: Column, value: str | None) -> str | None:
    """Ask the server whether a column takes a value; return its complaint."""
    if value is None:
        return None if column.nullable else "empty, which is NULL; it must have a value"
    try:
        with conn.transaction():
            fix_formats(conn)
            # The column's own input conversion: a cast would cut a text that is too long.
            conn.execute(
                sql.SQL("CREATE TEMPORARY TABLE refresh_value (value {}) ON COMMIT DROP").format(
                    compose.declared_sql(column.type)
                )
            )
            conn.execute(sql.SQL("INSERT INTO refresh_value VALUES ({})").format(sql.Literal(value)))
    except psycopg.Error as error:
        return f"{shown(value)} is no {column.type} ({words(error)})"
    return None


def _explain_key(load: Load, error: RepeatedKeyError) -> RefreshError:
    made = any(column.expression is not None for column in load.table.columns if column.name in load.table.key)
    lines = {} if made else _key_lines(load, error)
    places = [
        f"{', '.join(shown(value) for value in key)}" + (f" on {lines[key]}" if lines.get(key) else "")
        for key in error.keys
    ]
    return RefreshError(
        f"{load.table.file}: the key ({', '.join(load.table.key)}) is not unique: {'; '.join(places)}; "
        + ("mend the key's expression, or the publisher the file" if made else "the publisher must mend the file")
    )


def _key_lines(load: Load, error: RepeatedKeyError) -> dict[Values, str]:
    header = load.header
    if any(name not in header for name in load.table.key):
        return {}
    types = {column.name: column.type for column in load.table.columns}
    normalisers = [_normaliser(types[name]) for name in load.table.key]

    def normalise(values: Values) -> tuple[Any, ...]:
        return tuple(
            None if value is None else normal(value) for normal, value in zip(normalisers, values, strict=True)
        )

    places = [header.index(name) for name in load.table.key]
    found = records_with_keys(load.path, load.layout, places, error.keys, normalise)
    return {key: ", ".join(record.place for record in records) for key, records in found.items()}


def _normaliser(type_name: str) -> Callable[[str], Any]:
    """Return a function under which two texts that are the same value of a type become equal."""
    plain = type_name.strip().lower()
    if plain == "uuid":
        return lambda text: uuid.UUID(text.strip())
    if plain in ("smallint", "int2", "integer", "int", "int4", "bigint", "int8"):
        return lambda text: int(text.strip())
    if plain.startswith(("numeric", "decimal")):
        return lambda text: Decimal(text.strip())
    return lambda text: text

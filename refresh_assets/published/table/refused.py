"""What the server did not let a refresh do, in words for a person: which table, which setting, what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping

import psycopg
from psycopg import errors

from refresh_assets.errors import RefreshError
from refresh_assets.published.csv_file.locate import records
from refresh_assets.published.table.load import Load

VALUE_SHOWN = 80
MESSAGE_SHOWN = 300
# SQLSTATEs of sessions that the server ends because they take too long: idle in a transaction, a transaction, idle.
_TOO_LONG = ("25P03", "25P04", "57P05")
_CHARACTERS = re.compile(r"character(?: varying)?\((\d+)\)")


class NotTakenError(Exception):
    """The table did not take a row; `other_types` are the types of columns that are not of the declared type."""

    def __init__(self, cause: psycopg.Error, other_types: Mapping[str, str]) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.other_types = other_types


def words(error: psycopg.Error) -> str:
    """Return the server's words, which may quote a value of any length."""
    text = error.diag.message_primary or str(error)
    return text if len(text) <= MESSAGE_SHOWN else text[:MESSAGE_SHOWN] + "…"


def shown(value: str) -> str:
    """Return a value as it may stand in an error."""
    return ascii(value) if len(value) <= VALUE_SHOWN else ascii(value[:VALUE_SHOWN]) + "…"


def not_taken(load: Load, error: NotTakenError) -> RefreshError:
    """Say which row the table did not take, where that can be known, and what can be done about it."""
    detail = (error.cause.diag.message_detail or "")[:MESSAGE_SHOWN]
    return RefreshError(
        f"table {load.schema}.{load.table.name} does not take the published rows: {words(error.cause)}"
        + (f" ({detail})" if detail else "")
        + _too_long(load, error)
        + "; nothing was loaded"
        + _advice(error)
    )


def ended(load: Load, error: psycopg.Error, *, lock_seconds: float, statement_seconds: float) -> RefreshError | None:
    """Say of an error of the whole transaction which limit or right it met; None where it is another one."""
    name = f"{load.schema}.{load.table.name}"
    if isinstance(error, errors.LockNotAvailable):
        return RefreshError(
            f"lock time-out: another session holds a lock that the refresh of {name} needs; after {lock_seconds:g} s "
            "(REFRESH_LOCK_TIMEOUT, or a lower limit of the role) nothing was changed, the next run tries again"
        )
    if isinstance(error, errors.QueryCanceled) and "user request" not in words(error):
        return RefreshError(
            f"time-out: the server ended a statement of the refresh of {name} ({words(error)}); it may take "
            f"{statement_seconds:g} s (REFRESH_STATEMENT_TIMEOUT), or a lower limit of the role; nothing was changed"
        )
    if error.sqlstate in _TOO_LONG:
        return RefreshError(f"time-out: the server ended the refresh of {name} ({words(error)}); nothing was changed")
    if isinstance(error, errors.InsufficientPrivilege):
        return RefreshError(
            f"the role lacks a right that the refresh of {name} needs: {words(error)}; nothing was changed. "
            "`refresh-assets check` names what it must be granted"
        )
    return None


def _too_long(load: Load, error: NotTakenError) -> str:
    """Name the first kept row of the file that has more characters in a column than the table's column takes."""
    if not isinstance(error.cause, errors.StringDataRightTruncation):
        return ""
    found = {name: _CHARACTERS.fullmatch(kind) for name, kind in error.other_types.items()}
    computed = {column.name for column in load.table.columns if column.expression is not None}
    limits = {name: int(match[1]) for name, match in found.items() if match and name in set(load.header) - computed}
    for record in records(load.path, load.layout):
        row = dict(zip(load.header, record.values, strict=False))
        if not _is_kept(load, row):
            continue
        for name, most in limits.items():
            if len((row.get(name) or "").rstrip(" ")) > most:
                return f"; {load.table.file}: {record.place}: column {name}: {shown(row[name] or '')}"
    return ""


def _is_kept(load: Load, row: Mapping[str, str | None]) -> bool:
    if load.table.filter is None or load.allowed is None:
        return True
    # What the server trims as well.
    return (row.get(load.table.filter.column) or "").strip(" \t\n\r\f\v") in load.allowed


def _advice(error: NotTakenError) -> str:
    other = ", ".join(f"{name} is {kind}" for name, kind in sorted(error.other_types.items()))
    if other and isinstance(error.cause, (psycopg.DataError, errors.DatatypeMismatch, errors.UndefinedFunction)):
        return f". Of another type than declared: {other}; change the table's column or the declaration"
    if isinstance(error.cause, (errors.UniqueViolation, errors.ForeignKeyViolation, errors.ExclusionViolation)):
        return (
            ". A constraint of your own that only the way to the new rows breaks can be made DEFERRABLE INITIALLY "
            "DEFERRED"
        )
    return ""

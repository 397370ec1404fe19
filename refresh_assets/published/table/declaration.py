"""What a team declares of one published table, checked as far as it can be without a database."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from refresh_assets.errors import RefreshError

# Postgres cuts longer names in silence, and two of them could become one.
NAME_BYTES = 63
OURS = ("refresh_state", "refresh_loads")
# Nothing that could end the column definition that the type stands in.
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ .,()\[\]]*")
_FILE = re.compile(r"[^/\\\x00-\x1f]+")


class DeclarationError(RefreshError):
    """A declaration contradicts itself or lacks something; the text names the table and the field."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    `type` is a Postgres type as in CREATE TABLE. `expression`, where given, is SQL over the file's columns whose value
    is stored instead of the published one; that one may then be NULL, and of another type, `published_type`. A column
    that is not `published` stands in the table only. `description` says to people what it holds.
    """

    name: str
    type: str
    nullable: bool = True
    expression: str | None = None
    published: bool = True
    published_type: str | None = None
    description: str = field(default="", compare=False)

    @property
    def staged(self) -> Column:
        """The column as the file has it."""
        if self.expression is None:
            return self
        return Column(self.name, self.published_type or self.type)


@dataclass(frozen=True)
class RowFilter:
    """Rows are kept whose `column`, trimmed, is one of the values: those given, or those that a setting lists."""

    column: str
    values: tuple[str, ...] = ()
    setting: str | None = None


@dataclass(frozen=True)
class Table:
    """One published file and the table that is kept equal to it."""

    name: str
    file: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    filter: RowFilter | None = None
    transform_version: int = 1
    schema_version: int = 1
    # The smallest share of the rows that were there which a new load may leave.
    shrink_limit: float = 0.5
    owners: tuple[str, ...] = field(default=(), compare=False)
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise DeclarationError(f"table {self.name!r}: " + "; ".join(problems))

    @property
    def published(self) -> tuple[Column, ...]:
        """The columns of the file, as it has them."""
        return tuple(column.staged for column in self.columns if column.published)

    @property
    def transformed(self) -> bool:
        return any(column.expression is not None for column in self.columns)

    @property
    def lock_suffix(self) -> str:
        """What the name of the advisory lock has behind `refresh:<schema>`.

        The datasets table has none: the cron job that many teams run beside this project locks by the schema alone.
        """
        return "" if self.name == "datasets" else f":{self.name}"


def _problems(table: Table) -> Iterable[str]:
    names = [column.name for column in table.columns]
    for name in (table.name, *names):
        if not name or "\0" in name or len(name.encode()) > NAME_BYTES:
            yield f"{name!r} is no name of 1 to {NAME_BYTES} bytes"
        if name in OURS or name.startswith("refresh:"):
            yield f"{name!r} is a name that the refresh uses itself"
    if not _FILE.fullmatch(table.file) or table.file in (".", ".."):
        yield f"file {table.file!r} must be the name of one published file, without a folder"
    yield from (f"column {name!r} is declared {count} times" for name, count in Counter(names).items() if count > 1)
    yield from _key_problems(table)
    yield from _column_problems(table)
    yield from _filter_problems(table)
    if table.transform_version < 1 or table.schema_version < 1:
        yield "transform_version and schema_version are whole numbers from 1"
    if not 0 <= table.shrink_limit <= 1:
        yield "shrink_limit is a share from 0 to 1"


def _key_problems(table: Table) -> Iterable[str]:
    if not table.key:
        yield "key names no column"
    by_name = {column.name: column for column in table.columns}
    for name in table.key:
        if name not in by_name:
            yield f"key column {name!r} is not declared"
        elif by_name[name].nullable:
            yield f"key column {name!r} must be declared with nullable: false"
    if len(set(table.key)) < len(table.key):
        yield "key names a column twice"


def _column_problems(table: Table) -> Iterable[str]:
    for column in table.columns:
        for type_name in (column.type, column.published_type):
            if type_name is not None and not _TYPE.fullmatch(type_name.strip()):
                yield f"column {column.name!r}: {type_name!r} is not a Postgres type"
        if column.published_type is not None and (column.expression is None or not column.published):
            yield f"column {column.name!r}: published_type goes with an expression over a published column"
        if column.expression is not None and not column.expression.strip():
            yield f"column {column.name!r} has an empty expression"
        if column.expression is None and not column.published:
            yield f"column {column.name!r} is not published, so it needs an expression"
    if not table.published:
        yield "no column is published"


def _filter_problems(table: Table) -> Iterable[str]:
    if table.filter is None:
        return
    if table.filter.column not in {column.name for column in table.published}:
        yield f"filter column {table.filter.column!r} is not a published column"
    if bool(table.filter.values) == bool(table.filter.setting):
        yield "filter needs either values or the setting that lists them"

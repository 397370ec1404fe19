"""The target table: made where it is absent, looked at, and made equal to the source by changing only what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import errors, sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, ask_for_memory
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.delta import find_delta
from refresh_assets.published.table.keep import Kept
from refresh_assets.published.table.load import Samples
from refresh_assets.published.table.parts import Pages, can_be_read_in_parts, count_pages, count_parts, split
from refresh_assets.published.table.refused import NotTakenError
from refresh_assets.published.table.samples import samples_of_delta, samples_of_table
from refresh_assets.published.table.stage import Source
from refresh_assets.published.table.unique import RepeatedKeyError, check_key

_CREATE = queries("refresh_assets.published.table", "sql/create.sql")
_APPLY = queries("refresh_assets.published.table", "sql/apply.sql")


@dataclass(frozen=True)
class Changes:
    """How many rows of the target were added, changed and removed, with samples of each."""

    added: int
    changed: int
    removed: int
    samples: Samples


@dataclass(frozen=True)
class Taken:
    """What the table, which had so many rows before, took in of the published ones, and what that changed."""

    kept: Kept
    changes: Changes
    rows_before: int


class _FoundColumn(NamedTuple):
    type: str
    as_declared: bool
    generated: bool
    not_null: bool


@dataclass(frozen=True)
class Target:
    """The table in the database, for the length of one transaction."""

    conn: Connection
    schema: str
    table: Table

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.table.name)

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.table.name}"

    def _fetch(self, statement: str, **pieces: sql.Composable) -> Any:
        return self.conn.execute(_APPLY[statement].format(**pieces)).fetchone()

    def exists(self) -> bool:
        """Tell whether the table is there.

        Raises RefreshError where something else has its name, or tables inherit from it: their rows would count, and be
        deleted, as its own.
        """
        row = self._fetch("relation_kind", target=self._literal(self.name))
        if row is None:
            return False
        if row[0] not in ("r", "p"):
            raise RefreshError(
                f"{self.shown} is there and is no table; rename it, or give the declaration another name"
            )
        if row[1] is not None:
            raise RefreshError(
                f"the table {row[1]} inherits from {self.shown}, so that its rows would be taken for published ones; "
                f"end that with ALTER TABLE {row[1]} NO INHERIT {self.shown}"
            )
        return True

    def create(self) -> None:
        """Create the table as declared. Its key is to follow the rows."""
        columns = compose.definitions(self.table.columns)
        self.conn.execute(_CREATE["target"].format(target=self.name, columns=columns))

    def add_key(self) -> None:
        """Give a table just filled its primary key: over all rows at once it is made faster than row by row."""
        self.conn.execute(_CREATE["primary_key"].format(target=self.name, key=compose.names(self.table.key)))

    def unique_index(self) -> str | None:
        """Return the name of an index that lets no key stand in two rows."""
        row = self._fetch("unique_index", target=self._literal(self.name), key=sql.Literal(sorted(self.table.key)))
        return row[0] if row else None

    def is_bare(self) -> bool:
        """Tell whether a table just created is as it was declared, and nothing came with it."""
        return bool(self._fetch("is_bare", target=self._literal(self.name))[0])

    def shows_repeated_keys(self) -> bool:
        """Tell whether `replace` finds repeated keys by the way, which spares a pass over all published rows."""
        try:
            self.check_columns()
        except RefreshError:
            return False
        return self.unique_index() is not None

    def count(self) -> int:
        return int(self._fetch("count", target=self.name)[0])

    def lock(self) -> None:
        """Let other writers wait, and readers pass, to the transaction's end."""
        self.conn.execute(_APPLY["lock_target"].format(target=self.name))

    def filled(self, rows: int) -> Changes:
        """Return the changes of a table that was just made and filled with so many rows."""
        return Changes(rows, 0, 0, samples_of_table(self.conn, self.name, self._columns))

    def replace(
        self, source: Source, rows_before: int, *, new: bool, compared: Callable[[], None] = lambda: None
    ) -> Changes:
        """Make the table hold exactly the source's rows; `new` tells that it was just created.

        `compared` is called when it is known what differs, before anything is changed.

        Raises RefreshError and NotTakenError where it cannot, and RepeatedKeyError where the key was not checked and is
        not unique.
        """
        other_types = self.check_columns(source)
        ask_for_memory(self.conn, "hash")
        with self._taking_rows(other_types):
            if rows_before:
                find_delta(
                    self.conn,
                    source,
                    self.delta_pieces(source, other_types),
                    keyed=self.unique_index() is not None,
                )
                changes = self.apply_delta(source, rows_before, compared)
            else:
                changes = self._insert(source, new=new)
        if other_types or self._may_alter_rows():
            self._check_content(source, other_types)
        return changes

    def check_constraints(self) -> None:
        """Look at what is deferred: it must not come behind the look at what was written, at the commit."""
        self.conn.execute(_APPLY["constraints_now"])

    @contextlib.contextmanager
    def _taking_rows(self, other_types: Mapping[str, str]) -> Iterator[None]:
        """Write to the table. Raises NotTakenError where it does not take a row."""
        try:
            yield
            self.check_constraints()
        except (
            errors.IntegrityError,
            errors.DataError,
            errors.DatatypeMismatch,
            errors.UndefinedFunction,
            errors.ProgramLimitExceeded,
        ) as error:
            raise NotTakenError(error, other_types) from error

    def stores_what_is_sent(self, source: Source) -> bool:
        """Tell whether a row of the source, once written, is that very row. Raises RefreshError as `check_columns`."""
        return not self.check_columns(source) and not self._may_alter_rows()

    def check_columns(self, source: Source | None = None) -> Mapping[str, str]:
        """Return the types of the columns whose type in the table is not that of the source.

        Raises RefreshError where the table cannot take the declared columns.
        """
        found = self._found_columns(source)
        for column in self.table.columns:
            if column.name not in found:
                raise RefreshError(
                    f"table {self.shown} has no column {column.name!r}; add it (ALTER TABLE … ADD COLUMN) "
                    "or take it out of the declaration"
                )
            if found[column.name].generated:
                raise RefreshError(
                    f"column {column.name!r} of table {self.shown} is generated by the database; "
                    "take it out of the declaration or give the table an ordinary column"
                )
        if source is None:
            return {}
        names = (column.name for column in self.table.columns)
        other = {name: found[name].type for name in names if not found[name].as_declared}
        for name in self.table.key:
            if name in other:
                raise RefreshError(
                    f"key column {name!r} of table {self.shown} is of type {other[name]}, not of the declared "
                    "one; change the declaration or the table"
                )
        return other

    def _found_columns(self, source: Source | None) -> dict[str, _FoundColumn]:
        rows: Any = self.conn.execute(
            _APPLY["target_columns"].format(
                source=sql.Literal("") if source is None else self._literal(source.name),
                target=self._literal(self.name),
            )
        ).fetchall()
        return {row[0]: _FoundColumn(*row[1:]) for row in rows}

    def _insert(self, source: Source, *, new: bool) -> Changes:
        """Load into an empty table, where every row is a new one."""
        try:
            with self.conn.transaction():
                added = self.insert_new(source) if new else self._insert_by_parts(source)
                if new:
                    # What is repeated now was made so by a trigger, not by the publisher.
                    self.add_key()
        except errors.UniqueViolation:
            source.check_key(self.conn, self.table.key)
            raise
        return self.filled(added)

    def insert_new(self, source: Source) -> int:
        """Insert the source's rows into a table that has no key yet; return their number."""
        return self.conn.execute(_APPLY["insert_all"].format(**self._insert_pieces(source))).rowcount

    def _insert_by_parts(self, source: Source) -> int:
        if not can_be_read_in_parts(self.conn):
            return self.insert_new(source)
        pages = count_pages(self.conn, source.name)
        ask_for_memory(self.conn, "sort")
        added = sum(self.insert_part(source, part) for part in split(pages, count_parts(pages)))
        ask_for_memory(self.conn, "hash")
        return added

    def insert_part(self, source: Source, part: Pages) -> int:
        """Insert the source's rows on these pages in the order of the key; return their number.

        So an index is written page after page and not all over, and the rows yet stay about in the order of the file,
        in which they will be compared with the next one.
        """
        statement = _APPLY["insert_part"].format(
            **self._insert_pieces(source), first=part.first, behind=part.behind, key=compose.names(self.table.key)
        )
        return self.conn.execute(statement).rowcount

    def _insert_pieces(self, source: Source) -> dict[str, sql.Composable]:
        return {
            "target": self.name,
            "columns": compose.names(self._columns),
            "source": source.name,
            "keep": source.keep,
        }

    def delta_pieces(self, source: Source, cast_target: Collection[str] = ()) -> dict[str, sql.Composable]:
        """Return the pieces of SQL by which `find_delta` compares the source with the table."""
        key, rest = self.table.key, self._rest
        columns = compose.COMMA.join(
            [
                *(sql.SQL("coalesce(source.{0}, target.{0}) AS {0}").format(sql.Identifier(k)) for k in key),
                *(compose.name(name, "source") for name in rest),
            ]
        )
        return {
            "columns": columns,
            "delta_key": compose.same_key(key, "target", "delta"),
            **self._join(source, cast_target),
        }

    def apply_delta(self, source: Source, rows_before: int, compared: Callable[[], None]) -> Changes:
        """Make the changes that stand in `pg_temp.refresh_delta`; `compared` is called before.

        Raises RepeatedKeyError, WholeFileNeededError.
        """
        added, changed, removed = self._fetch("delta_counts")
        if not source.key_checked:
            self._check_key(source, each_met_its_own=source.rows - added == rows_before - removed)
        samples = samples_of_delta(self.conn, self.name, self.table.key, self._columns)
        compared()
        try:
            with self.conn.transaction():
                self._change(source)
        except errors.UniqueViolation:
            # Of two staged rows with one key, one has met the table's row and the other, in another part, has not.
            source.check_key(self.conn, self.table.key)
            raise
        return Changes(added, changed, removed, samples)

    def _check_key(self, source: Source, *, each_met_its_own: bool) -> None:
        """Find repeated keys among the published rows from the delta, over a table whose own key is unique.

        Two rows with one key have either met the same row of the table, or both stand in the delta.
        """
        if each_met_its_own:
            try:
                check_key(self.conn, self.table.key, "refresh_delta")
            except RepeatedKeyError:
                pass
            else:
                return
        source.check_key(self.conn, self.table.key)

    def _change(self, source: Source) -> None:
        key, rest = self.table.key, self._rest
        delta_key = compose.same_key(key, "target", "delta")
        self.conn.execute(_APPLY["delete"].format(target=self.name, delta_key=delta_key))
        # A key may be equal and yet written otherwise: 1.0 and 1.00.
        types = self._types(source)
        assigned = rest + [name for name in key if not compose.is_same_if_equal(types[name])]
        if assigned:
            assignments = compose.COMMA.join(
                sql.SQL("{0} = delta.{0}").format(sql.Identifier(name)) for name in assigned
            )
            self.conn.execute(_APPLY["update"].format(target=self.name, assignments=assignments, delta_key=delta_key))
        self.conn.execute(_APPLY["insert"].format(target=self.name, columns=compose.names(self._columns)))

    def _check_content(self, source: Source, cast_target: Collection[str]) -> None:
        """Compare once more where a trigger or another type may have stored something else than was sent."""
        differing = self._fetch("still_differs", **self._join(source, cast_target))[0]
        if differing:
            raise RefreshError(
                f"after loading, table {self.shown} differs from what is published in {differing} "
                f"{'row' if differing == 1 else 'rows'}: "
                "a trigger, a rule or a column's type changes what is written; nothing was loaded"
            )

    def _join(self, source: Source, cast_target: Collection[str]) -> dict[str, sql.Composable]:
        types, first = self._types(source), self.table.key[0]
        compared = [
            (name, types[name])
            for name in self._columns
            if name not in self.table.key or not compose.is_same_if_equal(types[name])
        ]
        return {
            "source": source.name,
            "source_columns": compose.names(self._columns),
            "keep": source.keep,
            "target": self.name,
            # What is NULL where a row has no match; a key that cannot be NULL costs less than a ctid.
            "source_mark": compose.name(first, "source"),
            "target_mark": compose.name(first if self._found_columns(source)[first].not_null else "ctid", "target"),
            "same_key": compose.same_key(self.table.key, "source", "target"),
            "differs": compose.differs(compared, cast_target),
        }

    def _types(self, source: Source) -> dict[str, str]:
        """Return the declared types as Postgres writes them."""
        rows: Any = self.conn.execute(_APPLY["declared_types"].format(source=self._literal(source.name))).fetchall()
        return dict(rows)

    def _may_alter_rows(self) -> bool:
        return bool(self._fetch("may_alter_rows", target=self._literal(self.name))[0])

    @property
    def _columns(self) -> list[str]:
        return [column.name for column in self.table.columns]

    @property
    def _rest(self) -> list[str]:
        """The columns that are not part of the key."""
        return [name for name in self._columns if name not in self.table.key]

    def _literal(self, name: sql.Identifier) -> sql.Literal:
        return sql.Literal(name.as_string(self.conn))

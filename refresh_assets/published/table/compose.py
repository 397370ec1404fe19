"""Pieces of SQL that follow from a declaration: names, column lists and conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from psycopg import sql

from refresh_assets.published.table.declaration import Column, Table

COMMA = sql.SQL(", ")
AND = sql.SQL(" AND ")
TRUE = sql.SQL("true")
FALSE = sql.SQL("false")

# Types for which "equal" means "the same": comparing these is cheaper than comparing images.
_SAME_IF_EQUAL = {
    "uuid", "smallint", "integer", "bigint", "boolean", "date", "bytea", "oid",
    "timestamp without time zone", "timestamp with time zone",
}  # fmt: skip
# A collation may call different texts equal; bytes never lie.
_TEXTS = {"text", "character varying"}


def names(columns: Iterable[str], table: str | None = None) -> sql.Composed:
    """Return a list of column names, each behind a table's name where one is given."""
    return COMMA.join(name(column, table) for column in columns)


def name(column: str, table: str | None = None) -> sql.Identifier:
    return sql.Identifier(column) if table is None else sql.Identifier(table, column)


def declared_sql(text: str) -> sql.SQL:
    """Return a type or an expression of a declaration, which is code of the project as its Python is."""
    return sql.SQL(text)


def definitions(columns: Iterable[Column]) -> sql.Composed:
    """Return column definitions as in CREATE TABLE."""
    return COMMA.join(
        sql.SQL("{} {}{}").format(
            sql.Identifier(column.name),
            declared_sql(column.type),
            sql.SQL("" if column.nullable else " NOT NULL"),
        )
        for column in columns
    )


def trimmed(text: sql.Composable) -> sql.Composed:
    """Return a text without surrounding white space."""
    # Not \v: before PostgreSQL 17 that was the letter.
    return sql.SQL("btrim({}, E' \\t\\n\\r\\f\\x0b')").format(text)


def among(text: sql.Composable, values: Sequence[str]) -> sql.Composed:
    return sql.SQL("{} = ANY ({}::text[])").format(text, sql.Literal(list(values)))


def expressions(table: Table) -> sql.Composed:
    """Return what is stored in each column, over the staged row."""
    return COMMA.join(
        sql.Identifier(column.name)
        if column.expression is None
        else sql.SQL("({})").format(declared_sql(column.expression))
        for column in table.columns
    )


def same_key(key: Iterable[str], left: str, right: str) -> sql.Composed:
    return AND.join(sql.SQL("{} = {}").format(name(column, left), name(column, right)) for column in key)


def is_same_if_equal(type_name: str) -> bool:
    """Tell whether two values of a type that `=` calls equal are always written alike."""
    return type_name in _SAME_IF_EQUAL


def differs(columns: Sequence[tuple[str, str]], cast_target: Collection[str]) -> sql.Composable:
    """Return the condition under which a `source` row and a `target` row differ.

    `columns` are (name, type as Postgres writes it); the target's values of those in `cast_target` are of another type
    and are compared as the declared one.
    """
    plain: list[tuple[sql.Composable, sql.Composable]] = []
    images: list[tuple[sql.Composable, sql.Composable]] = []
    for column, type_name in columns:
        pair: tuple[sql.Composable, sql.Composable] = (name(column, "source"), name(column, "target"))
        if column in cast_target:
            pair = (pair[0], sql.SQL("{}::{}").format(pair[1], declared_sql(type_name)))
        text = type_name.partition("(")[0] in _TEXTS
        if text:
            pair = (_bytewise(pair[0]), _bytewise(pair[1]))
        (plain if text or is_same_if_equal(type_name) else images).append(pair)
    conditions: list[sql.Composable] = []
    if plain:
        conditions.append(
            sql.SQL("ROW({}) IS DISTINCT FROM ROW({})").format(*(COMMA.join(side) for side in zip(*plain, strict=True)))
        )
    if images:
        # The operator of records that compares stored images: 1.0 and 1.00, or two JSON texts, are told apart.
        conditions.append(
            sql.SQL("ROW({})::record *<> ROW({})::record").format(
                *(COMMA.join(side) for side in zip(*images, strict=True))
            )
        )
    return sql.SQL("({})").format(sql.SQL(" OR ").join(conditions)) if conditions else FALSE


def row_hash(columns: Sequence[str]) -> sql.Composed:
    """Return a 64-bit hash of a row of the table `hashed`, the same for the same texts of its columns."""
    return sql.SQL("({})").format(
        sql.SQL(" # ").join(
            sql.SQL("coalesce(hashtextextended({}, {}), {})").format(
                as_bytes(name(column, "hashed")),
                sql.Literal(2 * place),
                sql.Literal(2 * place + 1),
            )
            for place, column in enumerate(columns)
        )
    )


def sampled(key: Sequence[str], modulus: int) -> sql.Composable:
    """Return the condition under which a row of the table `hashed` belongs to the sample of one in `modulus`."""
    if modulus == 1:
        return TRUE
    return sql.SQL("mod(hashtext({}), {}) = 0").format(
        sql.SQL(" || chr(1) || ").join(as_bytes(name(column, "hashed")) for column in key), sql.Literal(modulus)
    )


def texts(columns: Iterable[str], table: str, length: int = 200) -> sql.Composed:
    """Return the columns as texts cut to a length, for samples shown to people."""
    return COMMA.join(
        sql.SQL("left({}::text, {})").format(name(column, table), sql.Literal(length)) for column in columns
    )


def as_bytes(value: sql.Composable) -> sql.Composed:
    """Return a value of any type as a text that is compared byte for byte."""
    return _bytewise(sql.SQL("{}::text").format(value))


def _bytewise(value: sql.Composable) -> sql.Composed:
    return sql.SQL('{} COLLATE "C"').format(value)

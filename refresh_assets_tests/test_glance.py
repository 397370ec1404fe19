"""A table at a glance: its rows, and what its columns are made from as the server knows it."""

from __future__ import annotations

from dataclasses import replace

from refresh_assets.postgres.connect import connect
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.published.table.glance import Glance, glance
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, Desk

MADE = replace(
    BOOKS,
    columns=(
        *BOOKS.columns[:2],
        Column("note", "text", expression="upper(note)"),
        Column("since", "integer", published_type="date", expression="extract(year FROM since)::integer"),
        Column("label", "text", published=False, expression="title || coalesce(', ' || note, '')"),
        Column("year", "integer", published=False, expression="2026"),
    ),
)


def look(desk: Desk, table: Table) -> Glance:
    with connect(desk.settings, "test") as conn:
        return glance(conn, "etl", table)


def test_columns_are_made_from_those_that_their_expressions_read(desk: Desk) -> None:
    assert look(desk, MADE).made_from == {
        "id": ("id",),
        "title": ("title",),
        "note": ("note",),
        "since": ("since",),
        "label": ("title", "note"),
        "year": (),
    }


def test_an_expression_that_the_server_does_not_take_is_left_out(desk: Desk) -> None:
    table = replace(BOOKS, columns=(*BOOKS.columns, Column("odd", "text", published=False, expression="no_such(note)")))
    assert list(look(desk, table).made_from) == ["id", "title", "note"]


def test_a_look_leaves_nothing_behind(desk: Desk) -> None:
    with connect(desk.settings, "test") as conn:
        for _ in range(2):
            glance(conn, "etl", MADE)
        left = conn.execute("SELECT relname FROM pg_class WHERE relname LIKE 'refresh_%'").fetchall()
    assert left == []


def test_the_first_rows_by_the_key_are_shown(desk: Desk) -> None:
    desk.run([*reversed(ROWS), *((str(n), "More", "") for n in range(5, 20))])
    assert [row[0] for row in look(desk, BOOKS).preview] == ["1", "2", "3", "4", "5"]


def test_a_table_that_is_not_there_has_no_preview(desk: Desk) -> None:
    assert look(desk, BOOKS).preview == ()


def test_a_table_that_somebody_locks_is_not_waited_for(desk: Desk) -> None:
    desk.run(ROWS)
    with connect(desk.settings, "test other") as other, other.transaction():
        other.execute("LOCK TABLE etl.books IN ACCESS EXCLUSIVE MODE")
        with connect(desk.settings, "test") as conn:
            conn.execute("SET lock_timeout = '50ms'")
            assert glance(conn, "etl", BOOKS).preview == ()

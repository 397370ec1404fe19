"""The locked replace, on a real server: what is loaded, what is left alone, what is refused."""

from __future__ import annotations

from dataclasses import replace as altered
from random import Random

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.published.table.replace import replace
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, SHELF, Desk


def test_a_first_load_makes_the_schema_the_table_the_state_and_one_row_of_history(desk: Desk) -> None:
    result = desk.run(ROWS)
    assert (result.outcome, result.message) == ("loaded", "first load: loaded 4 rows")
    assert desk.rows() == [(1, "Tides", None), (2, "Dunes", "worn"), (3, "Marsh", None), (4, "Heath", None)]
    assert desk.value("SELECT job_key FROM etl.refresh_state WHERE job = 'books.csv'") == result.job_key
    assert desk.value("SELECT count(*) FROM etl.refresh_loads") == 1


def test_the_same_file_again_changes_nothing(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    result = desk.run(ROWS)
    assert (result.outcome, result.rows, result.rows_staged) == ("unchanged", 4, 4)
    assert desk.picture() == before


def test_only_rows_that_differ_are_written(desk: Desk) -> None:
    desk.run(ROWS)
    versions = dict(desk.admin.execute("SELECT id, xmin::text FROM etl.books").fetchall())
    result = desk.run([("1", "Tides", ""), ("2", "Dunes", "mended"), ("4", "Heath", ""), ("5", "Fen", "")])
    assert (result.added, result.changed, result.removed) == (1, 1, 1)
    after = dict(desk.admin.execute("SELECT id, xmin::text FROM etl.books").fetchall())
    assert {key for key in after if after[key] != versions.get(key)} == {2, 5}
    assert result.message == "input changed: loaded 4 rows"


def test_samples_show_what_was_added_changed_and_removed(desk: Desk) -> None:
    desk.run(ROWS)
    samples = desk.run([("1", "Tides", "new"), ("2", "Dunes", "worn"), ("4", "Heath", ""), ("5", "Fen", "")]).samples
    assert samples.added == [("5", "Fen", None)]
    assert samples.changed == [(("1", "Tides", None), ("1", "Tides", "new"))]
    assert samples.removed == [("3", "Marsh", None)]


def test_null_becoming_empty_text_is_a_change(desk: Desk) -> None:
    desk.run("id,title,note\n1,Tides,\n2,Dunes,x\n")
    result = desk.run('id,title,note\n1,Tides,""\n2,Dunes,x\n')
    assert result.changed == 1
    assert desk.rows()[0] == (1, "Tides", "")


@pytest.mark.parametrize(
    ("type_name", "before", "after"),
    [
        ("numeric", "1.0", "1.00"),
        ("json", '"{""a"":1}"', '"{""a"": 1}"'),
        ("double precision", "0", "-0"),
        ("interval", "1 day", "24 hours"),
        ("point", '"(1,2)"', '"(1,3)"'),
        ("text[]", '"{a,b}"', '"{a,B}"'),
    ],
)
def test_values_that_are_equal_but_not_the_same_are_changes(
    desk: Desk, type_name: str, before: str, after: str
) -> None:
    table = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", type_name)))
    desk.run(f"id,title,note\n1,Tides,{before}\n2,Dunes,{before}\n", table)
    result = desk.run(f"id,title,note\n1,Tides,{after}\n2,Dunes,{before}\n", table)
    assert (result.changed, result.rows) == (1, 2)
    assert desk.run(f"id,title,note\n1,Tides,{after}\n2,Dunes,{before}\n", table).outcome == "unchanged"


def test_a_key_written_otherwise_is_stored_as_it_is_written_now(desk: Desk) -> None:
    table = altered(BOOKS, columns=(Column("id", "numeric", nullable=False), *BOOKS.columns[1:]))
    desk.run("id,title,note\n1.0,Tides,\n2,Dunes,\n", table)
    result = desk.run("id,title,note\n1.00,Tides,\n2,Dunes,\n", table)
    assert result.changed == 1
    assert desk.value("SELECT id::text FROM etl.books WHERE title = 'Tides'") == "1.00"


def test_a_key_of_several_columns_is_compared_as_a_whole(desk: Desk) -> None:
    table = altered(
        BOOKS,
        key=("id", "title"),
        columns=(BOOKS.columns[0], Column("title", "text", nullable=False), BOOKS.columns[2]),
    )
    desk.run([("1", "a", "x"), ("1", "b", "x"), ("2", "a", "x")], table)
    result = desk.run([("1", "a", "x"), ("1", "b", "y"), ("2", "c", "x")], table)
    assert (result.added, result.changed, result.removed) == (1, 1, 1)
    assert sorted(desk.rows()) == [(1, "a", "x"), (1, "b", "y"), (2, "c", "x")]


def test_names_with_capitals_quotes_blanks_and_percent_signs_work(desk: Desk) -> None:
    table = Table(
        'My "Books" 100%s',
        "books.csv",
        ("The Id",),
        (Column("The Id", "integer", nullable=False), Column('Ti"tle %', "text"), Column("{note}", "text")),
    )
    for title in ("Tides", "Tides 2"):
        result = desk.run([("1", title, "50%")], table, schema='Odd "Schema" %')
        assert result.outcome == "loaded"
    assert desk.admin.execute('SELECT * FROM "Odd ""Schema"" %"."My ""Books"" 100%s"').fetchall() == [
        (1, "Tides 2", "50%")
    ]


def test_the_public_schema_works(desk: Desk) -> None:
    assert desk.run(ROWS, schema="public").outcome == "loaded"
    assert len(desk.rows("public.books")) == 4


def test_columns_are_found_by_name_and_not_by_place(desk: Desk) -> None:
    desk.run("note,ID , title\nworn,1,Tides\n")
    assert desk.rows() == [(1, "Tides", "worn")]


def test_the_filter_compares_trimmed_values_and_stores_them_as_they_are(desk: Desk) -> None:
    result = desk.run(
        [("1", "a", "", " open"), ("2", "b", "", "free\t"), ("3", "c", "", "shut"), ("4", "d", "", "")], SHELF
    )
    assert (result.rows_staged, result.rows) == (4, 2)
    assert [row[3] for row in desk.rows("etl.shelf")] == [" open", "free\t"]
    assert {(count.value, count.rows, count.kept) for count in result.filter_counts} == {
        ("open", 1, True),
        ("free", 1, True),
        ("shut", 1, False),
        (None, 1, False),
    }


def test_an_expression_stores_its_value_instead_of_the_published_one(desk: Desk) -> None:
    columns = (
        *BOOKS.columns[:2],
        Column("note", "text", expression="nullif(upper(note), 'WORN')"),
        Column("letters", "integer", nullable=False, expression="length(title)", published=False),
    )
    result = desk.run(ROWS[1:3], altered(BOOKS, columns=columns))
    assert result.outcome == "loaded"
    assert desk.rows() == [(2, "Dunes", None, 5), (3, "Marsh", None, 5)]
    assert desk.run(ROWS[1:3], altered(BOOKS, columns=columns)).outcome == "unchanged"


def test_an_expression_whose_value_does_not_fit_is_refused(desk: Desk) -> None:
    columns = (*BOOKS.columns[:2], Column("note", "varchar(3)", expression="title"))
    with pytest.raises(RefreshError, match="'books': a column expression failed: value too long"):
        desk.run(ROWS[:1], altered(BOOKS, columns=columns))


def test_an_expression_may_read_a_published_column_of_another_type(desk: Desk) -> None:
    miles = Column(
        "note", "numeric", nullable=False, expression="coalesce(split_part(note, ' ', 1)::numeric, 0)",
        published_type="text",
    )  # fmt: skip
    desk.run([("1", "Tides", "12 miles"), ("2", "Dunes", "")], altered(BOOKS, columns=(*BOOKS.columns[:2], miles)))
    assert [row[2] for row in desk.rows()] == [12, 0]


def test_a_key_that_an_expression_makes_equal_is_refused(desk: Desk) -> None:
    columns = (Column("id", "integer", nullable=False, expression="id / 2"), *BOOKS.columns[1:])
    with pytest.raises(RefreshError, match=r"the key \(id\) is not unique: '1'"):
        desk.run(ROWS, altered(BOOKS, columns=columns))


def test_bytes_changed_between_check_and_load_are_never_loaded(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    load = desk.load([("1", "Ebb", ""), *ROWS[1:]])
    load.path.write_text(load.path.read_text().replace("Ebb", "Odd"))
    with connect(desk.settings, "test") as conn, pytest.raises(RefreshError, match="was changed after it was verified"):
        replace(conn, load)
    assert desk.picture() == before


def test_fewer_rows_than_the_manifest_says_are_refused_with_both_numbers(desk: Desk) -> None:
    desk.run(ROWS)
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"^staged 5 rows; the manifest says 4$"):
        desk.run([*ROWS, ("5", "Fen", "")], rows=4)
    assert desk.picture() == before


def test_values_read_the_same_whatever_formats_the_role_has_set(desk: Desk) -> None:
    table = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "date")))
    desk.admin.execute(f"ALTER DATABASE {desk.settings.database} SET datestyle = 'German, DMY'")
    desk.run([("1", "Tides", "02/01/2026")], table)
    assert desk.value("SELECT to_char(note, 'YYYY-MM-DD') FROM etl.books") == "2026-02-01"
    assert desk.run([("1", "Tides", "02/01/2026")], table).outcome == "unchanged"


@pytest.mark.parametrize("value", ["tint", "nylon", "roar", "fluff", "verv", "xerox", "b0b"])
def test_only_white_space_is_trimmed_from_a_filter_value(desk: Desk, value: str) -> None:
    result = desk.run([("1", "a", "", f"\t {value}\x0b\f"), ("2", "b", "", value[1:])], SHELF, allowed=(value,))
    assert result.rows == 1
    assert {count.value: count.kept for count in result.filter_counts} == {value: True, value[1:]: False}


def test_a_filter_column_with_a_value_of_its_own_in_every_row_is_told_in_part(desk: Desk) -> None:
    rows = [(str(n), "t", "", f"kind {n}") for n in range(500)] + [("500", "t", "", "open")]
    result = desk.run(rows, SHELF)
    assert (result.rows_staged, result.rows) == (501, 1)
    assert len(result.filter_counts) == 100


def test_a_key_made_by_an_expression_alone_loads(desk: Desk) -> None:
    made = Column("code", "text", nullable=False, expression="title || '-' || id", published=False)
    table = altered(BOOKS, key=("code",), columns=(*BOOKS.columns, made))
    assert desk.run(ROWS, table).outcome == "loaded"
    assert desk.run([*ROWS[1:], ("9", "Fen", "")], table).removed == 1


def test_a_text_key_is_compared_as_bytes_and_stored_as_it_is(desk: Desk) -> None:
    table = altered(BOOKS, columns=(Column("id", "text", nullable=False), *BOOKS.columns[1:]))
    desk.run([("a", "1", ""), ("B", "2", "")], table)
    result = desk.run([("A", "1", ""), ("B", "2", "")], table)
    assert (result.added, result.removed) == (1, 1)


def test_random_edits_lead_to_exactly_the_published_rows_with_the_counts_of_what_was_done(desk: Desk) -> None:
    random = Random(7)  # noqa: S311
    held: dict[str, tuple[str, str, str, str]] = {}
    for _ in range(25):
        rows = {
            key: (
                key,
                random.choice(["a", "b", "c"]),
                random.choice(["", "x"]),
                random.choice(["open", "free ", "shut"]),
            )
            for key in (str(n) for n in range(30))
            if random.random() < 0.7
        }
        kept = {key: row for key, row in rows.items() if row[3].strip() != "shut"}
        result = desk.run(list(rows.values()), SHELF, accept_shrink=True)
        both = held.keys() & kept.keys()
        assert (result.added, result.removed) == (len(kept) - len(both), len(held) - len(both))
        assert result.changed == sum(held[key] != kept[key] for key in both)
        assert {str(row[0]): row[1:] for row in desk.rows("etl.shelf")} == {
            key: (row[1], row[2] or None, row[3]) for key, row in kept.items()
        }
        held = kept


@pytest.mark.parametrize("target", ["absent", "empty", "filled", "without a key"])
@pytest.mark.parametrize("kinds", [("open", "open"), ("open", "shut"), ("shut", "shut")])
def test_a_repeated_key_is_refused_whatever_the_target_and_the_filter(
    desk: Desk, target: str, kinds: tuple[str, str]
) -> None:
    sound = [(str(n), "t", "", "open") for n in range(20)]
    if target != "absent":
        desk.run(sound, SHELF)
    if target == "empty":
        desk.admin.execute("DELETE FROM etl.shelf")
    if target == "without a key":
        desk.admin.execute("ALTER TABLE etl.shelf DROP CONSTRAINT shelf_pkey")
    twice = [("77", "t", "", kind) for kind in kinds]
    with pytest.raises(RefreshError, match=r"the key \(id\) is not unique: '77' on line 22, line 23"):
        desk.run([*sound, *twice], SHELF)
    assert desk.value("SELECT count(*) FROM etl.refresh_loads") in (0, 1)


def test_a_load_into_a_new_table_with_a_repeated_key_leaves_no_table(desk: Desk) -> None:
    with pytest.raises(RefreshError, match="not unique: '1' on line 2, line 6"):
        desk.run([*ROWS, ROWS[0]])
    assert desk.value("SELECT to_regclass('etl.books')") is None


def test_a_new_table_has_the_declared_primary_key(desk: Desk) -> None:
    desk.run(ROWS)
    primary = "conrelid = 'etl.books'::regclass AND contype = 'p'"
    assert desk.value(f"SELECT array_agg(conkey) FROM pg_constraint WHERE {primary}") == [[1]]


def test_a_state_whose_parts_are_no_object_is_one_with_other_parts(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("UPDATE etl.refresh_state SET job_key = 'theirs', parts = 'null'")
    assert desk.run(ROWS).message == "config and input and schema and transform changed: loaded 4 rows"

"""The locked replace, on a real server: what is loaded, what is left alone, what is refused."""

from __future__ import annotations

from dataclasses import replace as altered
from random import Random

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.declaration import Column, Table
from refresh_assets.published.replace import replace
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


def test_grants_views_indexes_foreign_keys_and_extra_columns_survive(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE ROLE reader_of_books NOLOGIN")
    try:
        for statement in (
            "GRANT SELECT ON etl.books TO reader_of_books",
            "CREATE VIEW etl.worn AS SELECT id FROM etl.books WHERE note = 'worn'",
            "CREATE INDEX by_title ON etl.books (title)",
            "CREATE TABLE etl.lent (id int REFERENCES etl.books)",
            "INSERT INTO etl.lent VALUES (1)",
            "ALTER TABLE etl.books ADD shelf text DEFAULT 'A', ADD serial int GENERATED ALWAYS AS IDENTITY",
            "ALTER TABLE etl.books ADD size int GENERATED ALWAYS AS (length(title)) STORED",
        ):
            desk.admin.execute(statement)
        oid = desk.value("SELECT 'etl.books'::regclass::oid")
        desk.run([("1", "Tides and more", ""), ("3", "Marsh", "worn"), ("5", "Fen", "")])
        assert desk.value("SELECT 'etl.books'::regclass::oid") == oid
        assert desk.value("SELECT has_table_privilege('reader_of_books', 'etl.books', 'SELECT')")
        assert desk.admin.execute("SELECT * FROM etl.worn").fetchall() == [(3,)]
        assert desk.value("SELECT size FROM etl.books WHERE id = 1") == len("Tides and more")
        assert desk.value("SELECT shelf FROM etl.books WHERE id = 5") == "A"
    finally:
        desk.admin.execute("DROP OWNED BY reader_of_books")
        desk.admin.execute("DROP ROLE reader_of_books")


def test_a_row_that_others_refer_to_cannot_vanish_and_then_nothing_does(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE TABLE etl.lent (id int REFERENCES etl.books); INSERT INTO etl.lent VALUES (2)")
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"does not take the published rows: .* foreign key"):
        desk.run([ROWS[0], *ROWS[2:]])
    assert desk.picture() == before


def test_a_table_that_lacks_a_declared_column_is_named(desk: Desk) -> None:
    desk.run(ROWS)
    wider = altered(BOOKS, columns=(*BOOKS.columns, Column("year", "integer")), schema_version=2)
    with pytest.raises(RefreshError, match=r"table etl\.books has no column 'year'; add it"):
        desk.run([(*row, "1999") for row in ROWS], wider)


def test_a_column_of_another_type_that_takes_every_value_is_used_as_it_is(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.books (id int PRIMARY KEY, title varchar(20), note varchar(20))")
    assert desk.run(ROWS).outcome == "loaded"
    assert desk.run([("1", "Other", ""), *ROWS[1:]]).changed == 1
    assert desk.run([("1", "Other", ""), *ROWS[1:]]).outcome == "unchanged"


def test_a_column_that_would_round_what_is_published_is_refused(desk: Desk) -> None:
    table = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "numeric")))
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.books (id int PRIMARY KEY, title text, note numeric(5, 1))")
    with pytest.raises(RefreshError, match=r"1 rows of table etl\.books differ from the published ones"):
        desk.run([("1", "Tides", "1.25"), ("2", "Dunes", "1.5")], table)
    assert desk.rows() == []


def test_a_trigger_that_alters_what_is_written_is_found_and_all_is_rolled_back(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute(
        "CREATE FUNCTION etl.shout() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.title := upper(NEW.title); RETURN NEW; END $$"
    )
    desk.admin.execute(
        "CREATE TRIGGER shout BEFORE INSERT OR UPDATE ON etl.books FOR EACH ROW EXECUTE FUNCTION etl.shout()"
    )
    before = desk.picture()
    with pytest.raises(RefreshError, match="a trigger or a column's type changes what is written"):
        desk.run([("1", "Ebb", ""), *ROWS[1:]])
    assert desk.picture() == before


def test_a_trigger_that_drops_rows_is_found_by_the_count(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE FUNCTION etl.swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
    desk.admin.execute("CREATE TRIGGER swallow BEFORE INSERT ON etl.books FOR EACH ROW EXECUTE FUNCTION etl.swallow()")
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"1 rows of table etl\.books differ|held 4 rows where 5 were kept"):
        desk.run([*ROWS, ("5", "Fen", "")])
    assert desk.picture() == before


def test_a_table_with_repeated_keys_of_its_own_is_refused(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.books (id int, title text, note text)")
    desk.admin.execute("INSERT INTO etl.books VALUES (1, 'Tides', NULL), (1, 'Tides', NULL)")
    with pytest.raises(RefreshError, match=r"held 5 rows where 4 were kept; it has rows without a key or"):
        desk.run(ROWS)


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


def test_a_self_reference_that_writes_rows_which_stay_is_found(desk: Desk) -> None:
    table = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "integer")))
    desk.run([("1", "a", ""), ("2", "b", "1"), ("3", "c", "")], table)
    desk.admin.execute("ALTER TABLE etl.books ADD FOREIGN KEY (note) REFERENCES etl.books ON DELETE SET NULL")
    before = desk.picture()
    with pytest.raises(RefreshError, match="changes what is written"):
        desk.run([("2", "b", "1"), ("3", "c", "")], table)
    assert desk.picture() == before


def test_a_text_key_is_compared_as_bytes_and_stored_as_it_is(desk: Desk) -> None:
    table = altered(BOOKS, columns=(Column("id", "text", nullable=False), *BOOKS.columns[1:]))
    desk.run([("a", "1", ""), ("B", "2", "")], table)
    result = desk.run([("A", "1", ""), ("B", "2", "")], table)
    assert (result.added, result.removed) == (1, 1)


def test_random_edits_lead_to_exactly_the_published_rows_with_the_counts_of_what_was_done(desk: Desk) -> None:
    random = Random(7)  # noqa: S311
    held: dict[str, tuple[str, ...]] = {}
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


@pytest.mark.parametrize(
    "rule",
    [
        "ON UPDATE TO etl.books WHERE old.id = 1 DO INSTEAD NOTHING",
        "ON INSERT TO etl.books DO ALSO UPDATE etl.books SET note = 'odd' WHERE id = 4",
    ],
)
def test_a_rule_that_alters_what_is_written_is_found_and_all_is_rolled_back(desk: Desk, rule: str) -> None:
    desk.run(ROWS)
    desk.admin.execute(f"CREATE RULE odd AS {rule}")
    before = desk.picture()
    with pytest.raises(RefreshError, match="changes what is written"):
        desk.run([("1", "Ebb", ""), *ROWS[1:], ("5", "Fen", "")])
    assert desk.picture() == before


def test_a_trigger_on_a_partition_that_alters_what_is_written_is_found(desk: Desk) -> None:
    for statement in (
        "CREATE SCHEMA etl",
        "CREATE TABLE etl.books (id int PRIMARY KEY, title text, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE etl.low PARTITION OF etl.books FOR VALUES FROM (0) TO (100)",
    ):
        desk.admin.execute(statement)
    desk.run(ROWS)
    assert desk.run([("1", "Ebb", ""), *ROWS[1:]]).changed == 1
    desk.admin.execute("CREATE FUNCTION etl.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$")
    desk.admin.execute("CREATE TRIGGER keep BEFORE UPDATE ON etl.low FOR EACH ROW EXECUTE FUNCTION etl.keep()")
    with pytest.raises(RefreshError, match="changes what is written"):
        desk.run([("1", "Flood", ""), *ROWS[1:]])
    assert desk.rows()[0] == (1, "Ebb", None)


def test_rows_that_a_policy_hides_are_an_error_and_not_left_as_they_are(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE ROLE hidden_from NOLOGIN")
    try:
        for statement in (
            "GRANT ALL ON SCHEMA etl TO hidden_from",
            "GRANT ALL ON ALL TABLES IN SCHEMA etl TO hidden_from",
            "ALTER TABLE etl.books ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY partly ON etl.books USING (id < 3)",
        ):
            desk.admin.execute(statement)
        before = desk.picture()
        with connect(desk.settings, "test") as conn:
            conn.execute("SET ROLE hidden_from")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                replace(conn, desk.load(ROWS[:2]))
        assert desk.picture() == before
    finally:
        desk.admin.execute("DROP OWNED BY hidden_from")
        desk.admin.execute("DROP ROLE hidden_from")


def test_a_trigger_that_waits_for_the_commit_is_looked_behind_too(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute(
        "CREATE FUNCTION etl.late() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN UPDATE etl.books SET note = 'late' WHERE id = 4; RETURN NULL; END $$"
    )
    desk.admin.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON etl.books DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION etl.late()"
    )
    before = desk.picture()
    with pytest.raises(RefreshError, match="changes what is written"):
        desk.run([*ROWS, ("5", "Fen", "")])
    assert desk.picture() == before


def test_values_swapped_under_a_unique_index_are_refused_with_what_would_help(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE UNIQUE INDEX by_title ON etl.books (title)")
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"does not take the published rows: .*by_title.* DEFERRABLE"):
        desk.run([("1", "Dunes", ""), ("2", "Tides", "worn"), *ROWS[2:]])
    assert desk.picture() == before


def test_a_view_in_the_place_of_the_table_is_named(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE VIEW etl.books AS SELECT 1 AS id")
    with pytest.raises(RefreshError, match=r"etl\.books is there and is no table"):
        desk.run(ROWS)

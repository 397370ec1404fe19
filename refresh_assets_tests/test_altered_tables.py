"""The locked replace on tables that the team has made its own: what survives, what is found, what is refused."""

from __future__ import annotations

from dataclasses import replace as altered

import pytest
import sqlalchemy.exc

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.table.declaration import Column
from refresh_assets.published.table.replace import replace
from refresh_assets.published.table_report import reason
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, SHELF, Desk


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
    with pytest.raises(RefreshError, match=r"table etl\.books differs from what is published in 1 row: "):
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
    with pytest.raises(RefreshError, match="a trigger, a rule or a column's type changes what is written"):
        desk.run([("1", "Ebb", ""), *ROWS[1:]])
    assert desk.picture() == before


def test_a_trigger_that_drops_rows_is_found_by_the_count(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE FUNCTION etl.swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
    desk.admin.execute("CREATE TRIGGER swallow BEFORE INSERT ON etl.books FOR EACH ROW EXECUTE FUNCTION etl.swallow()")
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"etl\.books differs from what is published|held 4 rows where 5"):
        desk.run([*ROWS, ("5", "Fen", "")])
    assert desk.picture() == before


def test_a_table_with_repeated_keys_of_its_own_is_refused(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.books (id int, title text, note text)")
    desk.admin.execute("INSERT INTO etl.books VALUES (1, 'Tides', NULL), (1, 'Tides', NULL)")
    with pytest.raises(RefreshError, match=r"held 5 rows where 4 were kept; it has rows without a key or"):
        desk.run(ROWS)


def test_a_self_reference_that_writes_rows_which_stay_is_found(desk: Desk) -> None:
    table = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "integer")))
    desk.run([("1", "a", ""), ("2", "b", "1"), ("3", "c", "")], table)
    desk.admin.execute("ALTER TABLE etl.books ADD FOREIGN KEY (note) REFERENCES etl.books ON DELETE SET NULL")
    before = desk.picture()
    with pytest.raises(RefreshError, match="changes what is written"):
        desk.run([("2", "b", "1"), ("3", "c", "")], table)
    assert desk.picture() == before


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
            with pytest.raises(RefreshError, match=r"lacks a right .* row-level security"):
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


@pytest.mark.parametrize("kind", ["varchar(5)", "char(5)"])
def test_a_value_too_long_for_the_tables_own_column_is_told_with_its_line_and_value(desk: Desk, kind: str) -> None:
    desk.run(ROWS)
    desk.admin.execute(f"ALTER TABLE etl.books ALTER title TYPE {kind}")
    before = desk.picture()
    told = r"table etl\.books does not take .*; books\.csv: line 3: column title: 'Meadow'; .*title is character"
    with pytest.raises(RefreshError, match=told):
        desk.run([*ROWS[:1], ("5", "Meadow", ""), *ROWS[1:]])
    assert desk.picture() == before


def test_a_long_value_that_the_filter_drops_is_not_taken_for_the_one_that_is_too_long(desk: Desk) -> None:
    rows = [("1", "Tides", "", "open"), ("2", "A long title", "", "shut"), ("3", "Meadow", "", "free")]
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.shelf (id int PRIMARY KEY, title varchar(5) NOT NULL, note text, kind text)")
    with pytest.raises(RefreshError, match=r"books\.csv: line 4: column title: 'Meadow'"):
        desk.run(rows, SHELF)


def test_a_number_too_large_for_the_tables_own_column_is_told_with_its_type(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("ALTER TABLE etl.books ADD big smallint")
    table = altered(BOOKS, columns=(*BOOKS.columns, Column("big", "bigint")))
    with pytest.raises(RefreshError, match=r"etl\.books does not take .*out of range.*declared: big is smallint;"):
        desk.run([(*row, "99999") for row in ROWS], table)


def test_what_the_server_says_is_told_at_a_bounded_length(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute(
        "CREATE FUNCTION etl.wordy() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE check_violation USING MESSAGE = repeat('x', 5000), DETAIL = repeat('y', 5000); END $$"
    )
    desk.admin.execute("CREATE TRIGGER wordy BEFORE INSERT ON etl.books FOR EACH ROW EXECUTE FUNCTION etl.wordy()")
    with pytest.raises(RefreshError) as told:
        desk.run([*ROWS, ("5", "Meadow", "")])
    assert len(str(told.value)) < 1000


def test_what_a_command_prints_of_an_error_is_bounded_and_leaves_out_the_statements_of_sqlalchemy() -> None:
    assert len(reason(RuntimeError("x" * 90_000))) < 5000
    error = sqlalchemy.exc.OperationalError("INSERT INTO runs …", {"body": "x"}, OSError("it may not be written"))
    assert reason(error) == "it may not be written"


def test_a_view_in_the_place_of_the_table_is_named(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE VIEW etl.books AS SELECT 1 AS id")
    with pytest.raises(RefreshError, match=r"etl\.books is there and is no table"):
        desk.run(ROWS)


def test_a_table_from_which_others_inherit_is_refused_and_keeps_their_rows(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("CREATE TABLE etl.archive () INHERITS (etl.books)")
    desk.admin.execute("INSERT INTO etl.archive VALUES (99, 'Old', NULL)")
    before = desk.picture()
    with pytest.raises(RefreshError, match=r"ALTER TABLE etl\.archive NO INHERIT etl\.books"):
        desk.run(ROWS[1:])
    assert desk.picture() == before
    desk.admin.execute("ALTER TABLE etl.archive NO INHERIT etl.books")
    assert desk.run(ROWS[1:]).outcome == "loaded"
    assert desk.value("SELECT count(*) FROM etl.archive") == 1


@pytest.mark.parametrize("name", ["refresh_state", "refresh_loads"])
def test_somebody_elses_table_with_the_name_of_ours_is_named_and_left_alone(desk: Desk, name: str) -> None:
    desk.admin.execute(f"CREATE SCHEMA etl; CREATE TABLE etl.{name} (x integer)")
    with pytest.raises(RefreshError, match=rf"etl\.{name} is there and has not the columns .*REFRESH_SCHEMA"):
        desk.run(ROWS)
    columns = "SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    assert desk.admin.execute(columns, [f"etl.{name}"]).fetchall() == [("x",)]

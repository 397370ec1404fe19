"""A table that is not there yet is filled from the file itself, and is checked as any other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.table import keep
from refresh_assets.published.table.declaration import Column
from refresh_assets.published.table.load import FilterCount
from refresh_assets.published.table.replace import replace as replace_rows
from refresh_assets_tests.published_fixtures import BOOKS, SHELF, Desk

OPEN = [("1", "Tides", "", "open"), ("2", "Dunes", "", " free ")]
CLOSED = [("3", "Marsh", "", "closed"), ("4", "Heath", "", "")]


@pytest.fixture(autouse=True, params=[keep.BYTES_LOOKED_AT, 1], ids=["looked at", "tried"])
def ways_to_find_rows_left_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows that are left out be found among the first ones, and let them be found only when all were sent."""
    monkeypatch.setattr(keep, "BYTES_LOOKED_AT", request.param)


def refused(desk: Desk, rows: list[tuple[str, str, str, str]], words: str, promised: int | None = None) -> None:
    """Show that a first load is refused in these words and leaves no table."""
    with pytest.raises(RefreshError, match=words):
        desk.run(rows, SHELF, **({} if promised is None else {"rows": promised}))
    assert desk.value("SELECT to_regclass('etl.shelf')") is None


def test_what_the_filter_leaves_out_is_counted_and_not_loaded(desk: Desk) -> None:
    result = desk.run([OPEN[0], *CLOSED, OPEN[1]], SHELF)
    assert (result.rows_staged, result.rows, result.added) == (4, 2, 2)
    assert [row[0] for row in desk.rows("etl.shelf")] == [1, 2]
    assert sorted(result.filter_counts, key=str) == sorted(
        [
            FilterCount("open", 1, kept=True),
            FilterCount("free", 1, kept=True),
            FilterCount("closed", 1, kept=False),
            FilterCount(None, 1, kept=False),
        ],
        key=str,
    )
    assert desk.run([OPEN[0], *CLOSED, OPEN[1]], SHELF).outcome == "unchanged"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("x", "Fens", "", "closed"), "line 4: column id: 'x' is no integer"),
        (("9", "", "", "closed"), "line 4: column title: empty, which is NULL"),
        (("3", "Fens", "", "closed"), "not unique: '3' on line 3, line 4"),
        (("1", "Fens", "", "closed"), "not unique: '1' on line 2, line 4"),
        (("1", "Fens", "", "open"), "not unique: '1' on line 2, line 4"),
    ],
    ids=["no number", "no title", "one left out", "one kept", "both kept"],
)
def test_rows_are_sound_whether_they_are_kept_or_left_out(
    desk: Desk, row: tuple[str, str, str, str], words: str
) -> None:
    refused(desk, [OPEN[0], CLOSED[0], row], words)


@pytest.mark.parametrize("promised", [1, 2, 4])
def test_rows_left_out_count_as_published(desk: Desk, promised: int) -> None:
    refused(desk, [*OPEN, CLOSED[0]], f"^staged 3 rows; the manifest says {promised}$", promised)


def test_a_key_is_compared_as_its_type_wherever_that_is_at_home(desk: Desk) -> None:
    desk.admin.execute("CREATE SCHEMA elsewhere; CREATE EXTENSION citext SCHEMA elsewhere")
    table = replace(SHELF, columns=(Column("id", "elsewhere.citext", nullable=False), *SHELF.columns[1:]))
    with pytest.raises(RefreshError, match=r"not unique: '[aA]'"):
        desk.run([("a", "Tides", "", "open"), ("A", "Dunes", "", "closed")], table)


def test_a_file_changed_before_it_is_read_once_more_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "BYTES_LOOKED_AT", 1)
    load = desk.load([*OPEN, *CLOSED], SHELF)

    def change(sent: int) -> None:
        if sent == load.layout.bytes - load.layout.data_offset:
            load.path.write_bytes(load.path.read_bytes().replace(b"Marsh", b"March"))

    with connect(desk.settings, "test") as conn, pytest.raises(RefreshError, match="was changed after it was verified"):
        replace_rows(conn, load, progress=change)
    assert desk.value("SELECT to_regclass('etl.shelf')") is None


def test_a_table_from_which_nothing_is_left_out_is_filled_with_no_stage(desk: Desk) -> None:
    begins = "SELECT count(*) FROM pg_class WHERE relname = 'refresh_stage'"
    with connect(desk.settings, "test") as conn:
        seen = []
        load = desk.load(OPEN, SHELF, guard=lambda conn: seen.append(conn.execute(begins).fetchone()))
        assert replace_rows(conn, load).rows == 2
        load = desk.load([*OPEN, *CLOSED], replace(SHELF, name="second"), guard=load.guard)
        assert replace_rows(conn, load).rows == 2
    assert seen == [(0,), (1,)]


def test_none_kept_is_refused(desk: Desk) -> None:
    refused(desk, CLOSED, "refused to load 0 rows")


def test_the_line_is_found_whatever_the_table_is_called(desk: Desk) -> None:
    with pytest.raises(RefreshError, match="line 3: column id: 'x' is no integer"):
        desk.run([OPEN[0], ("x", "Fens", "", "open")], replace(SHELF, name='7 "books", line 9'))


def test_the_line_is_found_where_a_function_called_like_the_table_complains(desk: Desk) -> None:
    desk.admin.execute(
        """
        CREATE FUNCTION public.shelf_note(note text) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN
                IF note = 'bad' THEN RAISE 'a bad note' USING ERRCODE = 'check_violation'; END IF;
                RETURN true;
            END $$;
        CREATE DOMAIN public.note AS text CHECK (public.shelf_note(VALUE))
        """
    )
    table = replace(SHELF, columns=(*BOOKS.columns[:2], Column("note", "public.note"), SHELF.columns[3]))
    with pytest.raises(RefreshError, match=r"line 6: column note: 'bad' is no public\.note"):
        desk.run([*OPEN, *CLOSED, ("5", "Fens", "bad", "open")], table)


def test_a_table_that_was_dropped_is_made_anew(desk: Desk) -> None:
    desk.run(OPEN, SHELF)
    desk.admin.execute("DROP TABLE etl.shelf")
    result = desk.run(OPEN, SHELF)
    assert (result.outcome, result.added, result.drift is not None) == ("loaded", 2, True)
    assert desk.value("SELECT count(*) FROM etl.shelf") == 2


def comes_with_the_table(desk: Desk, added: str) -> None:
    """Let statements of the team's be executed whenever the table is made."""
    desk.admin.execute(
        sql.SQL(
            """
            CREATE FUNCTION public.watch() RETURNS event_trigger LANGUAGE plpgsql AS {};
            CREATE EVENT TRIGGER watch ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.watch()
            """
        ).format(
            sql.Literal(
                "BEGIN IF to_regclass('etl.shelf') IS NOT NULL AND obj_description(to_regclass('etl.shelf')) IS NULL "
                f"THEN COMMENT ON TABLE etl.shelf IS 'seen'; {added}; END IF; END"
            )
        )
    )


def trigger(statement: str) -> str:
    """Return what makes a trigger on the table that does this to each new row."""
    return (
        "CREATE FUNCTION public.alter_row() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {statement}; RETURN NEW; END $$; "
        "CREATE TRIGGER alter_row BEFORE INSERT ON etl.shelf FOR EACH ROW EXECUTE FUNCTION public.alter_row()"
    )


def test_a_trigger_that_comes_with_every_new_table_cannot_change_what_is_stored_unseen(desk: Desk) -> None:
    comes_with_the_table(desk, trigger("NEW.note := 'spoilt'"))
    refused(desk, OPEN, "table etl.shelf differs from what is published in 2 rows")


@pytest.mark.parametrize(
    ("added", "words"),
    [
        (
            "ALTER TABLE etl.shelf ADD CHECK (id < 2)",
            "table etl.shelf does not take the published rows: .*shelf_id_check",
        ),
        (
            trigger("NEW.id := 1"),
            "table etl.shelf does not take the published rows: .*shelf_pkey",
        ),
    ],
    ids=["check", "trigger"],
)
def test_what_comes_with_every_new_table_is_not_the_publishers_fault(desk: Desk, added: str, words: str) -> None:
    comes_with_the_table(desk, added)
    refused(desk, OPEN, words)

"""A large file is sent piece by piece, and what comes of it is what comes of a file sent whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace as altered
from typing import Any

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.table import keep
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.published.table.load import FilterCount, Load
from refresh_assets.published.table.replace import replace
from refresh_assets_tests.published_fixtures import SHELF, Desk, by_small_chunks, csv_text

Rows = list[tuple[str, ...]]
COLUMNS = ("id", "title", "note", "kind")
ROWS: Rows = [(str(n), f"title {n}", "x" * 100, "open" if n % 3 else " free ") for n in range(1, 1501)]
STAGED = "SELECT count(*) FROM pg_temp.refresh_stage"


@pytest.fixture(autouse=True)
def small_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    by_small_chunks(desk, monkeypatch)


def with_row(number: int, **values: str) -> Rows:
    """Return the rows with other values in the one that has this number."""
    rows = list(ROWS)
    rows[number - 1] = tuple(values.get(name, value) for name, value in zip(COLUMNS, rows[number - 1], strict=True))
    return rows


def staged_at_the_end(desk: Desk, rows: Rows, table: Table = SHELF, **changes: Any) -> int:
    """Load the rows; return how many of them stand on the stage when all is done."""
    seen: list[int] = []

    def look(conn: psycopg.Connection[Any]) -> None:
        seen.extend(conn.execute(STAGED).fetchone() or ())

    desk.run(rows, table, guard=look, **changes)
    return seen[0]


def picture(desk: Desk) -> Any:
    return [
        desk.admin.execute(query).fetchall()
        for query in (
            "SELECT xmin::text, ctid::text, shelf.* FROM etl.shelf ORDER BY 1, 2",
            "SELECT * FROM etl.refresh_state",
            "SELECT * FROM etl.refresh_loads",
        )
    ]


def refused(desk: Desk, content: Rows, words: str, **changes: Any) -> None:
    """Show that a load over what is there is refused in these words, and that nothing changed."""
    before = picture(desk)
    with pytest.raises(RefreshError, match=words):
        desk.run(content, SHELF, **changes)
    assert picture(desk) == before


def fill(desk: Desk, table: Table = SHELF) -> None:
    """Load the rows, and give back the pages that the server took in advance: of a small table they are half of it."""
    desk.run(ROWS, table)
    desk.admin.execute("VACUUM etl.shelf")


def empty(desk: Desk) -> None:
    """Leave the table as somebody else makes it: with its key and with no row."""
    desk.admin.execute("CREATE SCHEMA etl")
    desk.admin.execute("CREATE TABLE etl.shelf (id int PRIMARY KEY, title text NOT NULL, note text, kind text)")


# What is sent piece by piece


def test_no_more_than_a_piece_stands_on_the_stage(desk: Desk) -> None:
    fill(desk)
    assert staged_at_the_end(desk, with_row(700, title="another")) == 0
    assert desk.value("SELECT title FROM etl.shelf WHERE id = 700") == "another"


def test_an_empty_table_is_filled_piece_by_piece(desk: Desk) -> None:
    empty(desk)
    assert staged_at_the_end(desk, ROWS) == 0
    assert desk.value("SELECT count(*) FROM etl.shelf") == len(ROWS)


@pytest.mark.parametrize("place", [0, 300, 750, 1500])
@pytest.mark.parametrize("number", [150, -150])
def test_a_file_that_grew_or_shrank_in_one_place_is_taken_piece_by_piece(desk: Desk, place: int, number: int) -> None:
    fill(desk)
    if number > 0:
        rows = [*ROWS[:place], *((str(9000 + n), "new", "x" * 100, "open") for n in range(number)), *ROWS[place:]]
    else:
        rows = [*ROWS[: max(place + number, 0)], *ROWS[place or -number :]]
    assert staged_at_the_end(desk, rows, accept_shrink=True) == 0
    assert [row[0] for row in desk.rows("etl.shelf")] == sorted(int(row[0]) for row in rows)
    assert desk.value("SELECT added - removed FROM etl.refresh_loads ORDER BY load_id DESC LIMIT 1") == number


@pytest.mark.parametrize("looked_at", [keep.BYTES_LOOKED_AT, 1], ids=["looked at", "tried"])
def test_a_table_that_is_not_there_yet_is_filled_piece_by_piece_where_rows_are_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(keep, "BYTES_LOOKED_AT", looked_at)
    assert staged_at_the_end(desk, with_row(7, kind="closed")) == 0
    assert [row[0] for row in desk.rows("etl.shelf")] == [n for n in range(1, 1501) if n != 7]
    assert desk.value("SELECT count(*) FROM pg_index WHERE indrelid = 'etl.shelf'::regclass AND indisprimary") == 1


@pytest.mark.parametrize("kinds", [("open", "open"), ("closed", "closed"), ("open", "closed"), ("closed", "open")])
@pytest.mark.parametrize("places", [(20, 21), (20, 1400), (1400, 1401)])
def test_a_key_repeated_in_a_table_that_is_not_there_yet_is_told_by_its_lines(
    desk: Desk, kinds: tuple[str, str], places: tuple[int, int]
) -> None:
    rows = with_row(7, kind="closed")
    for place, kind in zip(places, kinds, strict=True):
        rows.insert(place - 1, ("5000", "again", "", kind))
    lines = ", ".join(f"line {place + 1}" for place in places)
    with pytest.raises(RefreshError, match=f"not unique: '5000' on {lines}"):
        desk.run(rows, SHELF)
    assert desk.value("SELECT to_regclass('etl.shelf')") is None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("first", [True, False], ids=["first load", "another load"])
def test_line_ends_in_quotes_are_no_ends_of_rows(desk: Desk, end: str, *, first: bool) -> None:
    rows = [(key, title, f'1,"{end}{end}2,"{end}' * (1 + int(key) % 7), kind) for key, title, _note, kind in ROWS]
    text = csv_text(rows, COLUMNS)
    if end != "\n":
        # Those between the rows: those in quotes are of the kind already.
        text = text.replace("\r\n", "\0").replace("\r", "\1").replace("\n", end).replace("\0", "\r\n")
        text = text.replace("\1", "\r")
    empty(desk)
    if not first:
        fill(desk)
    load = desk.load(text, SHELF)
    assert len(load.layout.cuts) > 50
    with connect(desk.settings, "test") as conn:
        replace(conn, load)
    assert [row[:3] for row in desk.rows("etl.shelf")] == [(int(key), title, note) for key, title, note, _ in rows]


def test_the_filters_values_are_counted_over_all_pieces(desk: Desk) -> None:
    fill(desk)
    result = desk.run(with_row(1, title="another"), SHELF)
    assert (result.rows_staged, result.rows, result.changed) == (1500, 1500, 1)
    assert result.filter_counts == (FilterCount("open", 1000, kept=True), FilterCount("free", 500, kept=True))


@pytest.mark.parametrize("kind", ["closed", "", "opened"])
@pytest.mark.parametrize("emptied", [True, False])
def test_rows_that_are_left_out_are_left_out_piece_by_piece(desk: Desk, kind: str, *, emptied: bool) -> None:
    fill(desk)
    if emptied:
        desk.admin.execute("TRUNCATE etl.shelf")
    rows = [(*row[:3], kind) if int(row[0]) % 10 == 0 else row for row in ROWS]
    assert staged_at_the_end(desk, rows) == 0
    assert [row[0] for row in desk.rows("etl.shelf")] == [n for n in range(1, 1501) if n % 10]
    assert desk.value("SELECT rows_staged - rows_kept FROM etl.refresh_loads ORDER BY load_id DESC LIMIT 1") == 150
    # And they come back.
    assert staged_at_the_end(desk, ROWS) == 0
    assert len(desk.rows("etl.shelf")) == 1500


def test_the_most_frequent_values_of_all_pieces_are_told_of_rows_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "VALUES_COUNTED", 4)
    fill(desk)
    rows = [(*row[:3], f"odd {int(row[0]) % 50}") if int(row[0]) % 5 == 0 else row for row in ROWS]
    rows[20:26] = [(*row[:3], " odd 5 ") for row in rows[20:26]]
    result = desk.run(rows, SHELF)
    assert result.rows_staged == 1500
    assert result.rows == result.filter_counts[0].rows + result.filter_counts[1].rows
    assert result.filter_counts[2:] == (FilterCount("odd 5", 36, kept=False), FilterCount("odd 0", 30, kept=False))


def test_progress_goes_on_from_piece_to_piece(desk: Desk) -> None:
    fill(desk)
    load = desk.load(with_row(5, title="another"), SHELF)
    seen: list[int] = []
    with connect(desk.settings, "test") as conn:
        replace(conn, load, progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert seen[-1] == load.layout.bytes - load.layout.data_offset


# What is staged whole


def trigger(desk: Desk) -> None:
    desk.admin.execute(
        "CREATE FUNCTION etl.as_it_is() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
        "CREATE TRIGGER as_it_is BEFORE UPDATE ON etl.shelf FOR EACH ROW EXECUTE FUNCTION etl.as_it_is()"
    )


def without_key(desk: Desk) -> None:
    desk.admin.execute("ALTER TABLE etl.shelf DROP CONSTRAINT shelf_pkey")


def with_another_type(desk: Desk) -> None:
    desk.admin.execute("ALTER TABLE etl.shelf ALTER note TYPE varchar(1000)")


@pytest.mark.parametrize("make", [trigger, without_key, with_another_type])
def test_a_table_that_is_not_as_declared_has_the_file_staged_whole(desk: Desk, make: Callable[[Desk], None]) -> None:
    fill(desk)
    make(desk)
    assert staged_at_the_end(desk, with_row(700, title="another")) == 1500


def test_rows_in_another_order_have_the_file_staged_whole(desk: Desk) -> None:
    fill(desk)
    assert staged_at_the_end(desk, with_row(700, title="another")[::-1]) == 1500


def test_rows_left_out_in_one_place_have_the_file_staged_whole(desk: Desk) -> None:
    fill(desk)
    rows = [(str(int(row[0]) + 10_000), row[1], "y" * 300, "closed") for row in ROWS] + ROWS
    assert staged_at_the_end(desk, rows) == 3000
    assert desk.value("SELECT count(*) FROM etl.shelf") == 1500


def test_columns_made_by_expressions_have_the_file_staged_whole(desk: Desk) -> None:
    title = Column("title", "text", nullable=False, expression="upper(title)")
    table = altered(SHELF, columns=(SHELF.columns[0], title, *SHELF.columns[2:]))
    fill(desk, table)
    assert staged_at_the_end(desk, with_row(700, title="another"), table) == 1500
    assert desk.value("SELECT title FROM etl.shelf WHERE id = 700") == "ANOTHER"


# What is refused


@pytest.mark.parametrize("number", [1, 700, 1500])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"id": "x"}, "column id: 'x' is no integer"),
        ({"title": ""}, "column title: empty, which is NULL"),
        ({"kind": 'open","more'}, "5 fields where the header has 4"),
    ],
    ids=["no number", "no title", "wide"],
)
@pytest.mark.parametrize("emptied", [True, False])
def test_a_row_that_is_not_sound_is_told_by_its_line(
    desk: Desk, number: int, values: dict[str, str], words: str, *, emptied: bool
) -> None:
    fill(desk)
    if emptied:
        desk.admin.execute("TRUNCATE etl.shelf")
    text = csv_text(with_row(number, **values), COLUMNS).replace('"open"",""more"', "open,more")
    before = picture(desk)
    with pytest.raises(RefreshError, match=rf"line {number + 1}: (column )?.*{words.removeprefix('column ')}"):
        desk.run(text, SHELF)
    assert picture(desk) == before


@pytest.mark.parametrize("copies", [(2, 3), (2, 1400), (1400, 1401)])
def test_a_key_repeated_in_an_empty_table_is_told_by_its_lines(desk: Desk, copies: tuple[int, int]) -> None:
    empty(desk)
    rows = list(ROWS)
    for place in copies:
        rows.insert(place - 1, ("5000", "again", "", "open"))
    lines = ", ".join(f"line {place + 1}" for place in copies)
    with pytest.raises(RefreshError, match=f"not unique: '5000' on {lines}"):
        desk.run(rows, SHELF)
    assert desk.value("SELECT count(*) FROM etl.shelf") == 0


@pytest.mark.parametrize("kinds", [("closed", "closed"), ("open", "closed"), ("closed", "open")])
@pytest.mark.parametrize("key", ["5000", "10", "700", "1500"])
@pytest.mark.parametrize("places", [(20, 21), (20, 1400), (1400, 1401)])
@pytest.mark.parametrize("emptied", [True, False])
def test_a_key_of_rows_left_out_is_told_by_its_lines_where_it_is_repeated(
    desk: Desk, kinds: tuple[str, str], key: str, places: tuple[int, int], *, emptied: bool
) -> None:
    fill(desk)
    if emptied:
        desk.admin.execute("TRUNCATE etl.shelf")
    rows = [row for row in ROWS if row[0] != key]
    for place, kind in zip(places, kinds, strict=True):
        rows.insert(place - 1, (key, "again", "", kind))
    lines = ", ".join(f"line {place + 1}" for place in places)
    refused(desk, rows, f"not unique: '{key}' on {lines}")


@pytest.mark.parametrize("promised", [1499, 1501])
def test_another_number_of_rows_than_promised_is_refused(desk: Desk, promised: int) -> None:
    fill(desk)
    rows = with_row(700, title="another")
    refused(desk, rows, f"^staged 1500 rows; the manifest says {promised}$", rows=promised)


def test_a_shrink_by_the_filter_is_refused_with_the_values_that_were_found(desk: Desk) -> None:
    fill(desk)
    rows = [(*row[:3], "closed") if int(row[0]) % 3 else row for row in ROWS]
    words = "refused to load 500 rows over 1500: .*column 'kind' has 'closed' in 1000 rows, 'free' in 500 rows"
    refused(desk, rows, words)
    assert desk.run(rows, SHELF, accept_shrink=True).removed == 1000


def test_a_shrink_is_refused_with_the_values_that_were_found(desk: Desk) -> None:
    fill(desk)
    words = "refused to load 600 rows over 1500: .*column 'kind' has 'open' in 400 rows, 'free' in 200 rows"
    refused(desk, ROWS[:600], words)
    assert desk.run(ROWS[:600], SHELF, accept_shrink=True).removed == 900


def changing(load: Load, at: int, change: Callable[[bytes], bytes]) -> Callable[[int], None]:
    """Return a progress that changes the file once so many bytes of it are sent."""

    def progress(sent: int) -> None:
        if sent >= at and load.path.read_bytes() == content:
            load.path.write_bytes(change(content))

    content = load.path.read_bytes()
    return progress


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b"title 1490", b"title 1499"),
        lambda content: content + b"9000,late,,open\n",
        lambda content: content[: content.index(b"1490,")],
        lambda content: content[:-1],
    ],
    ids=["other bytes", "a row more", "rows less", "its last byte missing"],
)
def test_a_file_that_changes_between_its_pieces_is_refused(desk: Desk, change: Callable[[bytes], bytes]) -> None:
    fill(desk)
    before = picture(desk)
    load = desk.load(with_row(3, title="another"), SHELF)
    with (
        connect(desk.settings, "test") as conn,
        pytest.raises(RefreshError, match="was changed after it was verified"),
    ):
        replace(conn, load, progress=changing(load, 10_000, change))
    assert picture(desk) == before


def test_a_constraint_of_the_teams_is_told_as_ever(desk: Desk) -> None:
    fill(desk)
    desk.admin.execute("ALTER TABLE etl.shelf ADD CONSTRAINT calm CHECK (title <> 'loud')")
    refused(desk, with_row(1499, title="loud"), "does not take the published rows: .*calm")


# Beside others


def test_readers_go_on_and_writers_wait_from_the_first_piece_on(desk: Desk) -> None:
    fill(desk)
    load = desk.load(with_row(3, title="another"), SHELF)
    half_sent, seen = threading.Event(), threading.Event()

    def progress(sent: int) -> None:
        if sent > 50_000 and not half_sent.is_set():
            half_sent.set()
            assert seen.wait(30)

    def run() -> None:
        with connect(desk.settings, "test") as conn:
            replace(conn, load, progress=progress)

    loading = threading.Thread(target=run)
    loading.start()
    assert half_sent.wait(30)
    try:
        with connect(desk.settings, "test other") as other:
            assert other.execute("SELECT title FROM etl.shelf WHERE id = 3").fetchone() == ("title 3",)
            other.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("DELETE FROM etl.shelf WHERE id = 4")
    finally:
        seen.set()
        loading.join(60)
    assert desk.value("SELECT title FROM etl.shelf WHERE id = 3") == "another"

"""A large file is sent chunk by chunk, and what comes of it is what comes of a file sent whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace as altered
from typing import Any

import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.csv_file.file_format import BLOCK
from refresh_assets.published.table import by_chunks, keep, parts
from refresh_assets.published.table.declaration import Column
from refresh_assets.published.table.load import FilterCount
from refresh_assets.published.table.replace import replace
from refresh_assets_tests.chunk_fixtures import (
    COLUMNS,
    ROWS,
    empty,
    fill,
    staged_at_the_end,
    with_row,
)
from refresh_assets_tests.published_fixtures import SHELF, Desk, csv_text

pytestmark = pytest.mark.usefixtures("small_chunks")


# What is sent chunk by chunk


def test_no_more_than_a_chunk_stands_on_the_stage(desk: Desk) -> None:
    fill(desk)
    assert staged_at_the_end(desk, with_row(700, title="another")) == 0
    assert desk.value("SELECT title FROM etl.shelf WHERE id = 700") == "another"


def test_an_empty_table_is_filled_chunk_by_chunk(desk: Desk) -> None:
    empty(desk)
    assert staged_at_the_end(desk, ROWS) == 0
    assert desk.value("SELECT count(*) FROM etl.shelf") == len(ROWS)


@pytest.mark.parametrize("place", [0, 300, 750, 1500])
@pytest.mark.parametrize("number", [150, -150])
def test_a_file_that_grew_or_shrank_in_one_place_is_taken_chunk_by_chunk(desk: Desk, place: int, number: int) -> None:
    fill(desk)
    if number > 0:
        rows = [*ROWS[:place], *((str(9000 + n), "new", "x" * 100, "open") for n in range(number)), *ROWS[place:]]
    else:
        rows = [*ROWS[: max(place + number, 0)], *ROWS[place or -number :]]
    assert staged_at_the_end(desk, rows, accept_shrink=True) == 0
    assert [row[0] for row in desk.rows("etl.shelf")] == sorted(int(row[0]) for row in rows)
    assert desk.value("SELECT added - removed FROM etl.refresh_loads ORDER BY load_id DESC LIMIT 1") == number


@pytest.mark.parametrize("looked_at", [keep.BYTES_LOOKED_AT, 1], ids=["looked at", "tried"])
def test_a_table_that_is_not_there_yet_is_filled_chunk_by_chunk_where_rows_are_left_out(
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


def test_the_filters_values_are_counted_over_all_chunks(desk: Desk) -> None:
    fill(desk)
    result = desk.run(with_row(1, title="another"), SHELF)
    assert (result.rows_staged, result.rows, result.changed) == (1500, 1500, 1)
    assert result.filter_counts == (FilterCount("open", 1000, kept=True), FilterCount("free", 500, kept=True))


@pytest.mark.parametrize("kind", ["closed", "", "opened"])
@pytest.mark.parametrize("emptied", [True, False])
def test_rows_that_are_left_out_are_left_out_chunk_by_chunk(desk: Desk, kind: str, *, emptied: bool) -> None:
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


def test_the_most_frequent_values_of_all_chunks_are_told_of_rows_left_out(
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


def test_progress_goes_on_from_chunk_to_chunk(desk: Desk) -> None:
    fill(desk)
    load = desk.load(with_row(5, title="another"), SHELF)
    seen: list[int] = []
    with connect(desk.settings, "test") as conn:
        replace(conn, load, progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert seen[-1] == load.layout.bytes - load.layout.data_offset


@pytest.mark.slow
def test_a_chunk_of_narrow_rows_stays_in_the_servers_memory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_PAGES", 1500)
    monkeypatch.setattr(by_chunks, "PART_BYTES", 1500 * 8192)
    desk.block_size = BLOCK
    text = csv_text([], COLUMNS) + "".join(f"{number},t,,open\n" for number in range(600_000))
    desk.run(text, SHELF)
    load = desk.load(text.replace("700,t", "700,another"), SHELF)
    room: list[Any] = []
    taken: list[Any] = []

    class Measuring(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **keywords: Any) -> Any:
            if "TRUNCATE" in (query if isinstance(query, str) else query.as_string(self.connection)):
                with psycopg.Cursor(self.connection) as cursor:
                    room.append(cursor.execute("SELECT current_setting('temp_buffers')::text").fetchone())
                    taken.append(cursor.execute("SELECT pg_relation_size('pg_temp.refresh_stage')").fetchone())
            return super().execute(query, *args, **keywords)

    with connect(desk.settings, "test") as conn:
        conn.cursor_factory = Measuring
        assert replace(conn, load).changed > 0
    assert len(taken) > 1
    assert desk.value(f"SELECT pg_size_bytes('{room[0][0]}')") >= max(size for (size,) in taken) > 8 * 1024 * 1024


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


def test_why_the_file_is_staged_whole_is_told_in_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    fill(desk)
    with caplog.at_level("INFO"):
        desk.run(with_row(700, title="another")[::-1], SHELF)
    assert "etl.shelf: the whole file is staged: its rows and those of the table are not in one order" in caplog.text


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


# Beside others


def test_readers_go_on_and_writers_wait_from_the_first_chunk_on(desk: Desk) -> None:
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

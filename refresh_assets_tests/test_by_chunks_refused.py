"""What is refused of a large file, sent chunk by chunk, is told as that of a file sent whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace as altered

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.replace import replace
from refresh_assets_tests.chunk_fixtures import COLUMNS, ROWS, empty, fill, refused, with_row
from refresh_assets_tests.published_fixtures import SHELF, Desk, csv_text

pytestmark = pytest.mark.usefixtures("small_chunks")


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
    before = desk.picture("shelf")
    with pytest.raises(RefreshError, match=rf"line {number + 1}: (column )?.*{words.removeprefix('column ')}"):
        desk.run(text, SHELF)
    assert desk.picture("shelf") == before


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
@pytest.mark.parametrize("key", ["5000", "700"])
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


def test_a_shrink_that_only_the_filter_makes_is_refused_where_all_is_in_order(desk: Desk) -> None:
    table = altered(SHELF, shrink_limit=0.9)
    fill(desk, table)
    before = desk.picture("shelf")
    with pytest.raises(RefreshError, match="refused to load 1250 rows over 1500"):
        desk.run([(*row[:3], "closed") if int(row[0]) % 6 == 0 else row for row in ROWS], table)
    assert desk.picture("shelf") == before


def test_a_file_of_which_nothing_is_kept_is_refused(desk: Desk) -> None:
    empty(desk)
    with pytest.raises(RefreshError, match="refused to load 0 rows"):
        desk.run([(*row[:3], "closed") for row in ROWS], SHELF)
    assert desk.rows("etl.shelf") == []


def test_a_repeated_key_is_told_before_a_shrink(desk: Desk) -> None:
    table = altered(SHELF, shrink_limit=0.9)
    fill(desk, table)
    rows = [(*row[:3], "closed") if int(row[0]) % 6 == 0 else row for row in ROWS]
    rows.insert(20, rows[900])
    with pytest.raises(RefreshError, match="not unique: '901' on line 22, line 903"):
        desk.run(rows, table)


def test_a_key_repeated_among_rows_left_out_is_told_before_a_constraint(desk: Desk) -> None:
    fill(desk)
    desk.admin.execute("ALTER TABLE etl.shelf ADD CHECK (title <> 'loud')")
    rows = with_row(3, title="loud")
    rows[20:20] = [("5000", "again", "", "closed")] * 2
    refused(desk, rows, "not unique: '5000' on line 22, line 23")


def test_a_value_too_long_for_an_index_of_the_teams_is_told(desk: Desk) -> None:
    fill(desk)
    desk.admin.execute("CREATE INDEX ON etl.shelf (note)")
    note = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200))
    words = "table etl.shelf does not take the published rows: index row (size|requires) "
    refused(desk, with_row(1499, note=note), words)


def test_what_an_event_trigger_puts_into_a_new_table_is_refused(desk: Desk) -> None:
    desk.admin.execute(
        """
        CREATE FUNCTION public.seed() RETURNS event_trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF to_regclass('etl.shelf') IS NOT NULL THEN
                    INSERT INTO etl.shelf VALUES (9000, 'seed', '', 'open') ON CONFLICT DO NOTHING;
                END IF;
            END $$;
        CREATE EVENT TRIGGER seed ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.seed()
        """
    )
    with pytest.raises(RefreshError, match=r"table etl\.shelf (held|does not take)"):
        desk.run(with_row(1, kind="closed"), SHELF)
    assert desk.value("SELECT to_regclass('etl.shelf')") is None


def test_a_faulty_line_is_told_before_a_constraint_of_an_empty_table(desk: Desk) -> None:
    empty(desk)
    desk.admin.execute("ALTER TABLE etl.shelf ADD CHECK (title <> 'loud')")
    rows = with_row(1401, id="x")
    rows[1] = ("2", "loud", "", "open")
    with pytest.raises(RefreshError, match="line 1402: column id: 'x' is no integer"):
        desk.run(rows, SHELF)


@pytest.mark.parametrize("copy", [0, 900])
def test_a_repeated_key_is_told_where_the_table_has_a_row_without_a_key(desk: Desk, copy: int) -> None:
    empty(desk)
    desk.admin.execute("ALTER TABLE etl.shelf DROP CONSTRAINT shelf_pkey, ALTER id DROP NOT NULL, ADD UNIQUE (id)")
    fill(desk)
    desk.admin.execute("INSERT INTO etl.shelf VALUES (NULL, 'lost', '', 'open')")
    rows = list(ROWS)
    rows.insert(copy, (ROWS[20][0], "again", *ROWS[20][2:]))
    refused(desk, rows, "not unique: '21' on line")


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
def test_a_file_that_changes_between_its_chunks_is_refused(desk: Desk, change: Callable[[bytes], bytes]) -> None:
    fill(desk)
    before = desk.picture("shelf")
    load = desk.load(with_row(3, title="another"), SHELF)
    with (
        connect(desk.settings, "test") as conn,
        pytest.raises(RefreshError, match="was changed after it was verified"),
    ):
        replace(conn, load, progress=changing(load, 10_000, change))
    assert desk.picture("shelf") == before


def test_a_constraint_of_the_teams_is_told_as_ever(desk: Desk) -> None:
    fill(desk)
    desk.admin.execute("ALTER TABLE etl.shelf ADD CONSTRAINT calm CHECK (title <> 'loud')")
    refused(desk, with_row(1499, title="loud"), "does not take the published rows: .*calm")

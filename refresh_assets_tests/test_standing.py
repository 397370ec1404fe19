"""What a run makes of the table it finds: untouched, changed behind its back, or loaded by another job."""

from __future__ import annotations

from dataclasses import replace as altered

import pytest

from refresh_assets.published.table import history
from refresh_assets.published.table.declaration import Column, RowFilter
from refresh_assets_tests.published_fixtures import BOOKS, ROWS, SHELF, Desk


@pytest.mark.parametrize(
    ("damage", "drift"),
    [
        ("UPDATE etl.books SET title = 'Odd' WHERE id = 1", "rows were changed behind the last load"),
        ("UPDATE etl.books SET note = '' WHERE id = 1", "rows were changed behind the last load"),
        ("DELETE FROM etl.books WHERE id = 1", "the table held 3 rows where the last load left 4"),
        ("INSERT INTO etl.books VALUES (9, 'Odd')", "the table held 5 rows where the last load left 4"),
        ("TRUNCATE etl.books", "the table held 0 rows where the last load left 4"),
        ("DROP TABLE etl.books", "the table is gone"),
        (
            "DELETE FROM etl.books WHERE id = 1; INSERT INTO etl.books VALUES (9, 'Tides')",
            "rows were changed behind the last load",
        ),
        (
            "UPDATE etl.books SET title = CASE id WHEN 3 THEN 'Heath' ELSE 'Marsh' END WHERE id > 2",
            "rows were changed behind the last load",
        ),
    ],
)
def test_a_table_changed_behind_the_last_load_is_loaded_again_and_it_is_said(
    desk: Desk, damage: str, drift: str
) -> None:
    desk.run(ROWS)
    sound = desk.rows()
    desk.admin.execute(damage)
    result = desk.run(ROWS)
    assert (result.outcome, result.drift) == ("loaded", drift)
    assert result.message == "table changed behind the last load: loaded 4 rows"
    assert desk.rows() == sound
    assert desk.run(ROWS).outcome == "unchanged"


def test_drift_is_told_also_when_another_file_is_loaded(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("DELETE FROM etl.books WHERE id = 1")
    result = desk.run([*ROWS, ("5", "Fen", "")])
    assert (result.changed_parts, result.drift) == (("input",), "the table held 3 rows where the last load left 4")


def test_a_state_without_history_made_by_an_older_job_is_trusted(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("DROP TABLE etl.refresh_loads")
    desk.admin.execute("UPDATE etl.books SET title = 'Theirs' WHERE id = 1")
    result = desk.run(ROWS)
    assert (result.outcome, result.rows, result.rows_staged) == ("unchanged", 4, None)
    assert desk.rows()[0][1] == "Theirs"


def test_what_the_cron_job_loaded_since_is_trusted(desk: Desk) -> None:
    desk.run(ROWS)
    theirs = desk.load([*ROWS, ("5", "Fen", "")])
    desk.admin.execute("INSERT INTO etl.books VALUES (5, 'Fen')")
    desk.admin.execute("UPDATE etl.refresh_state SET job_key = %s", (theirs.job_key,))
    assert desk.run([*ROWS, ("5", "Fen", "")]).outcome == "unchanged"


def test_an_earlier_publication_that_returns_is_loaded_again(desk: Desk) -> None:
    desk.run(ROWS)
    desk.run([*ROWS, ("5", "Fen", "")])
    assert desk.run(ROWS).outcome == "loaded"
    assert len(desk.rows()) == 4


def test_other_filter_values_load_the_table_anew_and_name_the_configuration(desk: Desk) -> None:
    rows = [(str(n), "t", "", kind) for n, kind in enumerate(["open", "free", "open", "shut"])]
    desk.run(rows, SHELF)
    result = desk.run(rows, SHELF, allowed=("open",))
    assert (result.changed_parts, result.rows, result.removed) == (("config",), 2, 1)
    assert result.message == "config changed: loaded 2 rows"


def test_several_changed_parts_are_joined_by_and(desk: Desk) -> None:
    desk.run(ROWS)
    result = desk.run([*ROWS, ("5", "Fen", "")], altered(BOOKS, transform_version=2))
    assert result.message == "input and transform changed: loaded 5 rows"


def test_a_changed_expression_under_the_same_version_is_told(desk: Desk) -> None:
    desk.run(ROWS)
    louder = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "text", expression="upper(note)")))
    result = desk.run(ROWS, louder)
    assert (result.outcome, result.unbumped) == ("unchanged", ("transform_version",))
    result = desk.run(ROWS, altered(louder, transform_version=2))
    assert (result.outcome, result.unbumped) == ("loaded", ())
    assert desk.rows()[1] == (2, "Dunes", "WORN")


def test_a_changed_column_type_under_the_same_version_is_told(desk: Desk) -> None:
    desk.run(ROWS)
    other = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "varchar(10)")))
    assert desk.run(ROWS, other).unbumped == ("schema_version",)


def test_above_a_million_rows_the_fingerprint_is_of_an_even_sample(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FINGERPRINT_ROWS", 100)
    rows = [(str(n), "t", "") for n in range(1000)]
    desk.run(rows)
    assert desk.value("SELECT fingerprint_modulus FROM etl.refresh_loads") == 10
    assert desk.run(rows).outcome == "unchanged"
    desk.admin.execute("UPDATE etl.books SET title = 'all'")
    assert desk.run(rows).drift == "rows were changed behind the last load"


def test_the_history_has_one_row_a_load_and_the_runs_id(desk: Desk) -> None:
    desk.run(ROWS, run_id="run-1")
    desk.run(ROWS, run_id="run-2")
    desk.run(ROWS[:3], run_id="run-3")
    loads = desk.admin.execute(
        "SELECT job, run_id, rows_staged, rows_kept, added, changed, removed, seconds > 0, loaded_at <= now() "
        "FROM etl.refresh_loads ORDER BY load_id"
    ).fetchall()
    assert loads == [
        ("books.csv", "run-1", 4, 4, 4, 0, 0, True, True),
        ("books.csv", "run-3", 3, 3, 0, 0, 1, True, True),
    ]


def test_the_history_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LOADS_KEPT", 3)
    for number in range(5):
        desk.run([*ROWS, (str(100 + number), "t", "")])
    assert desk.value("SELECT count(*) FROM etl.refresh_loads") == 3
    assert desk.value("SELECT max(load_id) FROM etl.refresh_loads") == 5


def test_a_changed_expression_is_told_until_its_version_is_raised(desk: Desk) -> None:
    desk.run(ROWS)
    louder = altered(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "text", expression="upper(note)")))
    more = [*ROWS, ("5", "Fen", "")]
    assert desk.run(more, louder).unbumped == ("transform_version",)
    assert desk.run(more, louder).unbumped == ("transform_version",)
    desk.admin.execute("UPDATE etl.refresh_state SET job_key = 'the cron job loaded in between'")
    assert desk.run(more, louder).unbumped == ("transform_version",)
    assert desk.run(more, altered(louder, transform_version=2)).unbumped == ()


def test_rows_that_came_in_behind_the_last_load_are_no_reason_to_refuse_it(desk: Desk) -> None:
    desk.run(ROWS)
    desk.admin.execute("INSERT INTO etl.books SELECT n, 'odd' FROM generate_series(100, 140) AS n")
    result = desk.run(ROWS)
    assert (result.outcome, result.removed) == ("loaded", 41)


def test_another_filter_column_loads_the_table_anew(desk: Desk) -> None:
    rows = [("1", "open", "", "shut"), ("2", "shut", "", "open")]
    desk.run(rows, SHELF)
    by_title = altered(SHELF, filter=RowFilter("title", values=SHELF.filter.values if SHELF.filter else ()))
    assert desk.run(rows, by_title).changed_parts == ("config",)
    assert [row[0] for row in desk.rows("etl.shelf")] == [1]

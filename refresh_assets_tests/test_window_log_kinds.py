"""Windows of two kinds of event log never stand side by side."""

from __future__ import annotations

import re

import pytest
from psycopg import errors, sql

from refresh_assets.errors import RefreshError
from refresh_assets_tests.windows_fixtures import WindowDesk, crowd, day

OLD_STATE = "ALTER TABLE etl.window_state DROP COLUMN source"
SOURCE = "SELECT source FROM etl.window_state"
OTHER_LOG = "counted from the event log 'moodle', and the setting WINDOW_SOURCE now says 'openedx'"


@pytest.fixture
def loaded(windows: WindowDesk) -> WindowDesk:
    """Windows of a day that were counted from Moodle's log; more events came."""
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    windows.load(day("2026-03-01"))
    windows.write(*crowd("2026-03-01T10:00Z", "oak", 9), *crowd("2026-03-02T09:00Z", "oak", 9))
    return windows


def test_another_kind_of_event_log_is_refused_before_anything_is_changed(loaded: WindowDesk) -> None:
    before = loaded.picture()
    loaded.name_log("openedx")
    for ask in (
        lambda: loaded.load(day("2026-03-01"), day("2026-03-02")),
        lambda: loaded.due("2026-03-03T06:00"),
        lambda: loaded.look("2026-03-03T06:00"),
    ):
        with pytest.raises(RefreshError, match=OTHER_LOG):
            ask()
    assert loaded.picture() == before


def test_the_error_has_the_statement_by_which_one_begins_anew(loaded: WindowDesk) -> None:
    loaded.name_log("openedx")
    with pytest.raises(RefreshError, match="Set WINDOW_SOURCE back to 'moodle', or begin anew: empty") as refused:
        loaded.load(day("2026-03-01"))
    statement = re.search(r"\((TRUNCATE .*;)\)", str(refused.value))
    assert statement is not None
    loaded.admin.execute("SET search_path = pg_catalog")
    loaded.admin.execute(statement[1].encode())
    loaded.load(day("2026-03-02"))
    assert loaded.value(SOURCE) == "openedx"
    assert loaded.events() == {"2026-03-02": {"oak": 9}}


def test_a_log_whose_kind_stays_may_move(loaded: WindowDesk) -> None:
    loaded.admin.execute("ALTER TABLE log RENAME TO old_log")
    loaded.admin.execute("CREATE TABLE log (LIKE old_log INCLUDING ALL)")
    loaded.write(*crowd("2026-03-02T09:00Z", "elm", 7))
    loaded.load(day("2026-03-02"))
    assert loaded.events() == {"2026-03-01": {"oak": 9}, "2026-03-02": {"elm": 7}}


def test_a_state_of_an_earlier_version_is_of_the_present_log_from_then_on(loaded: WindowDesk) -> None:
    loaded.admin.execute(OLD_STATE)
    loaded.look("2026-03-03T06:00")
    assert loaded.due("2026-03-03T06:00").stale == (day("2026-03-01"),)
    assert loaded.load(day("2026-03-02")).notes == []
    assert loaded.value(SOURCE) == "moodle"
    loaded.name_log("sample")
    with pytest.raises(RefreshError, match="WINDOW_SOURCE now says 'sample'"):
        loaded.load(day("2026-03-02"))


def test_a_role_that_may_not_alter_an_earlier_state_loads_and_is_told_so(loaded: WindowDesk) -> None:
    loaded.admin.execute(OLD_STATE)
    role = sql.Identifier(f"{loaded.settings.database}_loader")
    for statement in (
        "CREATE ROLE {role}",
        "GRANT USAGE ON SCHEMA etl TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA etl TO {role}",
        "GRANT SELECT ON log TO {role}",
    ):
        loaded.admin.execute(sql.SQL(statement).format(role=role))
    try:
        result = loaded.load(day("2026-03-02"), role=role)
        assert [done.outcome for done in result.done] == ["loaded"]
        assert 'ALTER TABLE "etl"."window_state" ADD COLUMN source text;' in result.notes[0]
        with pytest.raises(errors.UndefinedColumn):
            loaded.value(SOURCE)
    finally:
        loaded.admin.execute(sql.SQL("DROP OWNED BY {role}").format(role=role))
        loaded.admin.execute(sql.SQL("DROP ROLE {role}").format(role=role))

"""A table in the layout of Moodle's standard log: what counts, where it is, and what is never done to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.postgres.embedded import EmbeddedServer
from refresh_assets.settings import read_postgres
from refresh_assets.windows.moodle import MoodleLog
from refresh_assets.windows.source_settings import read_moodle
from refresh_assets_tests.event_logs import MOODLE, Counting, moment, window
from refresh_assets_tests.postgres_fixtures import new_database

KIND = "mod_forum.discussion.viewed"


class Moodle:
    """A Moodle's table, to be written by its own connection."""

    def __init__(self, database: Mapping[str, str], name: str = "mdl_logstore_standard_log") -> None:
        self.database = dict(database)
        self.name = sql.SQL(name)
        self.execute(MOODLE.format(name=name))

    def execute(self, statement: str | sql.Composed) -> None:
        with connect(read_postgres(self.database), "moodle") as conn:
            conn.execute(sql.SQL(statement) if isinstance(statement, str) else statement)

    def add(self, user: int, at: datetime, course: int | None = 42, anonymous: int = 0, action: str = "viewed") -> None:
        values = sql.SQL(", ").join(
            map(sql.Literal, (user, int(at.timestamp()), course, anonymous, "mod_forum", "discussion", action))
        )
        self.execute(
            sql.SQL(
                "INSERT INTO {} (userid, timecreated, courseid, anonymous, component, target, action) VALUES ({})"
            ).format(self.name, values)
        )

    def log(self, **settings: str) -> MoodleLog:
        return MoodleLog(read_moodle({**self.database, **settings}))


@pytest.fixture
def moodle(database: Mapping[str, str]) -> Moodle:
    return Moodle(database)


def test_events_learners_first_and_last_are_counted_by_course_and_kind(moodle: Moodle, counting: Counting) -> None:
    for user, hours in ((7, 1), (7, 2), (8, 3)):
        moodle.add(user, moment(hours))
    moodle.add(7, moment(4), course=43)
    moodle.add(7, moment(5), action="created")
    assert counting.cells(moodle.log(), [window()]) == {
        (0, "42", KIND): (3, 2, moment(1), moment(3)),
        (0, "43", KIND): (1, 1, moment(4), moment(4)),
        (0, "42", "mod_forum.discussion.created"): (1, 1, moment(5), moment(5)),
    }


def test_a_window_holds_its_beginning_and_not_its_end(moodle: Moodle, counting: Counting) -> None:
    first = window()
    for user, at in enumerate((first.since - timedelta(seconds=1), first.since, first.until), start=7):
        moodle.add(user, at)
    cells = counting.cells(moodle.log(), [first])
    assert cells == {(0, "42", KIND): (1, 1, first.since, first.since)}


def test_windows_of_one_pass_hold_what_each_holds_alone(moodle: Moodle, counting: Counting) -> None:
    windows = [window(0), window(1), window(4, days=3), window(7)]
    for day in range(10):
        for user in range(7, 9 + day):
            moodle.add(user, moment(user, day))
    together = counting.cells(moodle.log(), windows)
    alone = {
        (number, course, kind): cell
        for number, each in enumerate(windows)
        for (_, course, kind), cell in counting.cells(moodle.log(), [each]).items()
    }
    assert together == alone
    assert len(together) == 4


@pytest.mark.parametrize("user", [0, -1, -10, 1])
def test_who_is_nobody_or_a_guest_is_no_learner_and_the_event_counts(
    moodle: Moodle, counting: Counting, user: int
) -> None:
    moodle.add(user, moment(1))
    moodle.add(7, moment(2))
    assert counting.cells(moodle.log(), [window()]) == {(0, "42", KIND): (2, 1, moment(1), moment(2))}


def test_other_accounts_may_be_the_shared_ones(moodle: Moodle, counting: Counting) -> None:
    for user in (1, 7, 8):
        moodle.add(user, moment(1))
    ((_, learners, _, _),) = counting.cells(moodle.log(WINDOW_MOODLE_GUESTS="7, 8"), [window()]).values()
    assert learners == 1


def test_an_anonymous_event_counts_without_its_learner(moodle: Moodle, counting: Counting) -> None:
    moodle.add(7, moment(1), anonymous=1)
    assert counting.cells(moodle.log(), [window()]) == {(0, "42", KIND): (1, 0, moment(1), moment(1))}


def test_events_of_no_course_are_those_of_the_site(moodle: Moodle, counting: Counting) -> None:
    moodle.add(7, moment(1), course=0)
    moodle.add(7, moment(2), course=None)
    assert counting.cells(moodle.log(), [window()]) == {(0, "site", KIND): (2, 1, moment(1), moment(2))}


def test_a_window_without_events_is_empty_and_seen(moodle: Moodle, counting: Counting) -> None:
    assert counting.cells(moodle.log(), [window()]) == {}
    assert counting.staged is not None
    assert counting.staged.seen[window()].events == 0


def test_an_older_table_without_the_column_anonymous_will_do(moodle: Moodle, counting: Counting) -> None:
    moodle.execute("ALTER TABLE mdl_logstore_standard_log DROP COLUMN anonymous")
    moodle.execute(
        "INSERT INTO mdl_logstore_standard_log (userid, timecreated, component, target, action) "
        f"VALUES (7, {int(moment(1).timestamp())}, 'a', 'b', 'c')"
    )
    assert counting.cells(moodle.log(), [window()]) == {(0, "site", "a.b.c"): (1, 1, moment(1), moment(1))}


# Late events


def test_looking_tells_what_staging_told(moodle: Moodle, counting: Counting) -> None:
    windows = [window(0), window(1), window(2)]
    for day in (0, 2):
        for user in (7, 8, 9):
            moodle.add(user, moment(user, day))
    staged = counting.stage(moodle.log(), windows).seen
    assert moodle.log().look(windows) == {each: staged[each] for each in (windows[0], windows[2])}


def test_a_late_event_changes_the_mark_of_its_window_alone(moodle: Moodle) -> None:
    windows = [window(0), window(1)]
    for day in (0, 1):
        moodle.add(7, moment(1, day))
    before = moodle.log().look(windows)
    moodle.add(7, moment(2, 0))
    after = moodle.log().look(windows)
    assert after[windows[0]].mark != before[windows[0]].mark
    assert after[windows[1]] == before[windows[1]]


def test_an_event_in_place_of_another_changes_the_mark(moodle: Moodle) -> None:
    moodle.add(7, moment(1))
    before = moodle.log().look([window()])
    moodle.execute("DELETE FROM mdl_logstore_standard_log")
    moodle.add(7, moment(1))
    assert moodle.log().look([window()])[window()].mark != before[window()].mark


# Where the table is


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("lms.Log", "lms.log"),
        ('lms."Log"', 'lms."Log"'),
        ('"lms"."a.b"', 'lms."a.b"'),
        ('"a""b; DROP"', '"a""b; DROP"'),
    ],
)
def test_the_table_may_have_any_name_and_a_schema(
    database: Mapping[str, str], counting: Counting, setting: str, name: str
) -> None:
    with connect(read_postgres(database), "test") as conn:
        conn.execute("CREATE SCHEMA lms")
    moodle = Moodle(database, name)
    moodle.add(7, moment(1))
    assert len(counting.cells(moodle.log(WINDOW_MOODLE_TABLE=setting), [window()])) == 1


def test_the_table_may_be_in_another_database_with_a_role_of_its_own(
    postgres_server: EmbeddedServer, counting: Counting, database: Mapping[str, str], tmp_path: Path
) -> None:
    with new_database(postgres_server) as other:
        moodle = Moodle(other)
        role = f"reader_{other['PGDATABASE']}"
        moodle.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'r3ader-word'")
        moodle.execute(f"GRANT SELECT ON mdl_logstore_standard_log TO {role}")
        moodle.add(7, moment(1))
        file = tmp_path / "pgpass"
        file.write_text(f"*:*:*:{role}:r3ader-word\n")
        file.chmod(0o600)
        settings = {
            **database,
            "WINDOW_PGHOST": other["PGHOST"],
            "WINDOW_PGPORT": other["PGPORT"],
            "WINDOW_PGUSER": role,
            "WINDOW_PGDATABASE": other["PGDATABASE"],
        }
        try:
            for secret in ({"WINDOW_PGPASSWORD": "r3ader-word"}, {"WINDOW_PGPASSFILE": str(file)}):
                log = MoodleLog(read_moodle({**settings, **secret}))
                assert len(counting.cells(log, [window()])) == 1
                assert "r3ader-word" not in log.name + repr(log)
        finally:
            moodle.execute(f"DROP OWNED BY {role}")
            moodle.execute(f"DROP ROLE {role}")


def test_our_own_password_does_not_go_to_the_other_server(
    database: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "pgpass"
    file.write_text("")
    file.chmod(0o600)
    for name, value in database.items():
        monkeypatch.setenv(name, value)
    log = MoodleLog(
        read_moodle(
            {
                **database,
                "WINDOW_PGHOST": database["PGHOST"],
                "WINDOW_PGPORT": database["PGPORT"],
                "WINDOW_PGUSER": database["PGUSER"],
                "WINDOW_PGDATABASE": database["PGDATABASE"],
                "WINDOW_PGPASSFILE": str(file),
            }
        )
    )
    with pytest.raises(RefreshError, match="no password supplied"):
        log.look([window()])


def test_the_session_cannot_write(moodle: Moodle) -> None:
    with moodle.log().session() as log, pytest.raises(Exception, match="read-only"):
        log.execute("CREATE TABLE written (x integer)")


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns"])
def test_the_time_zones_of_role_and_session_change_nothing(moodle: Moodle, counting: Counting, zone: str) -> None:
    moodle.add(7, moment(1))
    usual = counting.cells(moodle.log(), [window()])
    moodle.execute(f"ALTER DATABASE {moodle.database['PGDATABASE']} SET TimeZone = '{zone}'")
    assert counting.cells(moodle.log(), [window()]) == usual


def test_a_table_that_is_not_there_is_told(database: Mapping[str, str], counting: Counting) -> None:
    log = MoodleLog(read_moodle({**database, "WINDOW_MOODLE_TABLE": "nowhere.log"}))
    with pytest.raises(RefreshError, match=r"table nowhere\.log in .* is not there"):
        counting.stage(log, [window()])


def test_a_table_laid_out_otherwise_is_told_by_what_it_lacks(moodle: Moodle) -> None:
    moodle.execute("ALTER TABLE mdl_logstore_standard_log DROP COLUMN target, DROP COLUMN userid")
    with pytest.raises(RefreshError, match="lacks target, userid"):
        moodle.log().look([window()])


def test_kinds_of_the_same_name_are_one_and_a_nameless_one_is_another(moodle: Moodle, counting: Counting) -> None:
    moodle.execute("ALTER TABLE mdl_logstore_standard_log ALTER target DROP NOT NULL")
    for component, target in (("'a'", "'b.c'"), ("'a.b'", "'c'"), ("'a'", "NULL")):
        moodle.execute(
            "INSERT INTO mdl_logstore_standard_log (userid, timecreated, courseid, component, target, action) "
            f"VALUES (7, {int(moment(1).timestamp())}, 42, {component}, {target}, 'viewed')"
        )
    assert counting.cells(moodle.log(), [window()]) == {
        (0, "42", "a.b.c.viewed"): (2, 1, moment(1), moment(1)),
        (0, "42", "other"): (1, 1, moment(1), moment(1)),
    }


def test_a_time_out_says_what_to_set(moodle: Moodle) -> None:
    moodle.execute("CREATE FUNCTION slow() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint FROM pg_sleep(20)'")
    moodle.add(7, moment(1))
    moodle.execute(
        "ALTER TABLE mdl_logstore_standard_log RENAME TO kept; CREATE VIEW mdl_logstore_standard_log AS "
        "SELECT id * slow() AS id, component, target, action, userid, courseid, timecreated FROM kept"
    )
    with pytest.raises(RefreshError, match="REFRESH_STATEMENT_TIMEOUT"):
        moodle.log(REFRESH_STATEMENT_TIMEOUT="0.2").look([window()])


def test_whatever_the_server_says_to_a_look_is_an_error_of_the_log(moodle: Moodle) -> None:
    moodle.add(7, moment(1))
    moodle.execute(
        "ALTER TABLE mdl_logstore_standard_log RENAME TO kept; CREATE VIEW mdl_logstore_standard_log AS "
        "SELECT id / (id - id) AS id, component, target, action, userid, courseid, timecreated FROM kept"
    )
    with pytest.raises(RefreshError, match="could not be looked at: division by zero"):
        moodle.log().look([window()])


def test_rows_that_a_policy_hides_are_an_error_and_not_left_out(moodle: Moodle) -> None:
    role = f"hidden_{moodle.database['PGDATABASE']}"
    moodle.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT SELECT ON mdl_logstore_standard_log TO {role}; "
        "ALTER TABLE mdl_logstore_standard_log ENABLE ROW LEVEL SECURITY"
    )
    try:
        with pytest.raises(RefreshError, match="may not be read in full"):
            moodle.log(WINDOW_PGUSER=role, WINDOW_PGPASSWORD="x").look([window()])
    finally:
        moodle.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_fractions_of_a_second_in_a_bound_are_kept_exactly(moodle: Moodle, counting: Counting) -> None:
    half = timedelta(milliseconds=500)
    odd = type(window())(window().since + half, window().until + half)
    for at in (window().since, window().until):
        moodle.add(7, at)
    ((events, _, first, _),) = counting.cells(moodle.log(), [odd]).values()
    assert (events, first) == (1, window().until)
    assert first.tzinfo is not None
    assert first.astimezone(timezone.utc) == first

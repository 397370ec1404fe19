"""A window is replaced whole, with the marker, in one transaction: nothing counts twice and nothing is left out."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.windows import grid
from refresh_assets_tests.postgres_fixtures import LOCKS_HELD
from refresh_assets_tests.windows_fixtures import WindowDesk, at, crowd, day


def test_events_at_the_end_of_a_window_belong_to_the_next_one(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T10:00Z", "alga", 6), *crowd("2026-03-02T23:59:59.999999Z", "alga", 7))
    windows.write(*crowd("2026-03-03T00:00Z", "alga", 9))
    for _time in range(2):
        windows.load_span("2026-03-01", "2026-03-03")
        assert windows.events() == {"2026-03-01": {"alga": 6}, "2026-03-02": {"alga": 7}}


def test_a_window_loaded_twice_has_the_same_rows_byte_for_byte(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T10:00Z", "alga", 6), *crowd("2026-03-01T11:00Z", "moss", 2))
    first = windows.load(day("2026-03-01"))
    rows = windows.rows()
    second = windows.load(day("2026-03-01"))
    assert windows.rows() == rows
    assert [done.digest for done in first.done] == [done.digest for done in second.done]
    assert str(second.done[0]) == "2026-03-01T00:00+00:00/2026-03-02T00:00+00:00: loaded 2 rows"


def test_an_emptied_window_ends_empty_and_its_neighbours_are_untouched(windows: WindowDesk) -> None:
    for date in ("2026-03-01", "2026-03-02", "2026-03-03"):
        windows.write(*crowd(f"{date}T10:00Z", "alga", 6))
    windows.load_span("2026-03-01", "2026-03-04")
    before = windows.rows("SELECT xmin::text, * FROM etl.activity_metrics WHERE since <> '2026-03-02Z' ORDER BY since")
    windows.admin.execute("DELETE FROM log WHERE happened_at::date = '2026-03-02'")
    windows.load(day("2026-03-02"))
    assert set(windows.events()) == {"2026-03-01", "2026-03-03"}
    assert windows.rows("SELECT xmin::text, * FROM etl.activity_metrics ORDER BY since") == before


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kathmandu", "Pacific/Kiritimati"])
def test_the_time_zone_of_role_and_database_changes_nothing(windows: WindowDesk, zone: str) -> None:
    windows.write(*crowd("2026-03-01T23:30Z", "alga", 6))
    windows.load(day("2026-03-01"))
    rows, digest = windows.rows(), windows.value("SELECT rows_digest FROM etl.window_loads")
    database = windows.settings.database
    windows.admin.execute(f"ALTER DATABASE {database} SET TimeZone = '{zone}'")
    windows.admin.execute(f"ALTER DATABASE {database} SET DateStyle = 'German'")
    windows.load(day("2026-03-01"))
    assert windows.rows() == rows
    assert windows.value("SELECT rows_digest FROM etl.window_loads") == digest


def test_the_marker_goes_over_a_gapless_row_only_and_never_back(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    assert windows.marker == at("2026-03-02")
    windows.load(day("2026-03-03"))
    assert windows.marker == at("2026-03-02")
    windows.load(day("2026-03-02"))
    assert windows.marker == at("2026-03-04")
    windows.load(day("2026-03-01"))
    assert windows.marker == at("2026-03-04")


def test_older_windows_join_the_row_when_the_gap_to_it_is_closed(windows: WindowDesk) -> None:
    windows.load(day("2026-03-05"))
    windows.load(day("2026-03-02"))
    assert windows.value("SELECT first FROM etl.window_state") == at("2026-03-05")
    windows.load(day("2026-03-03"), day("2026-03-04"))
    assert windows.value("SELECT first FROM etl.window_state") == at("2026-03-02")
    assert windows.marker == at("2026-03-06")


def test_a_window_that_fails_leaves_the_marker_before_it_and_is_loaded_by_the_next_run(windows: WindowDesk) -> None:
    windows.load(day("2026-02-28"))
    windows.write(*crowd("2026-03-01T09:00Z", "fern", 8), *crowd("2026-03-02T09:00Z", "fern", 9))
    windows.write(*crowd("2026-03-03T09:00Z", "bad", 7))
    windows.admin.execute(
        "CREATE FUNCTION etl.bad() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.course = 'bad' THEN RAISE 'no such course'; END IF; RETURN NEW; END $$"
    )
    windows.admin.execute(
        "CREATE TRIGGER bad BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.bad()"
    )
    result = windows.load_span("2026-03-01", "2026-03-04")
    assert [done.outcome for done in result.done] == ["loaded", "loaded", "failed"]
    assert "no such course" in result.done[-1].reason
    assert windows.events() == {"2026-03-01": {"fern": 8}, "2026-03-02": {"fern": 9}}
    assert windows.marker == at("2026-03-03")
    windows.admin.execute("DROP TRIGGER bad ON etl.activity_metrics")
    assert [done.window for done in windows.load_due("2026-03-04T06:00").done] == [day("2026-03-03")]
    assert windows.events()["2026-03-03"] == {"bad": 7}
    assert windows.marker == at("2026-03-04")


def test_a_first_window_that_fails_stays_due(windows: WindowDesk) -> None:
    windows.load()
    windows.write(*crowd("2026-03-01T09:00Z", "bad", 7))
    windows.admin.execute("ALTER TABLE etl.activity_metrics ADD CONSTRAINT no_bad CHECK (course <> 'bad')")
    assert [done.outcome for done in windows.load_span("2026-03-01", "2026-03-03").done] == ["failed", "loaded"]
    assert windows.due("2026-03-03T06:00").missing == (day("2026-03-01"),)
    assert windows.marker == at("2026-03-01")


def test_a_failing_row_is_told_without_its_numbers(windows: WindowDesk) -> None:
    windows.load()
    windows.write(*crowd("2026-03-01T09:00Z", "bad", 7))
    windows.admin.execute("ALTER TABLE etl.activity_metrics ADD CONSTRAINT no_bad CHECK (events <> 7)")
    (done,) = windows.load(day("2026-03-01")).done
    assert "no_bad" in done.reason
    assert "09:00" not in done.reason
    assert "7" not in done.reason.replace("23514", "")


def test_a_row_with_few_learners_is_hidden_and_flagged(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 12), *crowd("2026-03-01T09:00Z", "ash", 5))
    windows.write(*crowd("2026-03-01T09:00Z", "elm", 4), *crowd("2026-03-01T09:00Z", "yew", 1))
    windows.load(day("2026-03-01"))
    assert windows.events()["2026-03-01"] == {"ash": 5, "elm": None, "oak": 12, "yew": None}
    hidden = windows.rows("SELECT course, learners, first_event, last_event FROM etl.activity_metrics WHERE suppressed")
    assert sorted(hidden) == [("elm", None, None, None), ("yew", None, None, None)]


def test_the_state_holds_no_number_of_events(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 4321))
    windows.load(day("2026-03-01"))
    assert "4321" not in str(windows.rows("SELECT * FROM etl.window_loads"))


def test_a_window_that_another_session_loads_is_left_alone(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9), *crowd("2026-03-02T09:00Z", "oak", 9))
    before = windows.picture()
    with connect(windows.settings, "test other") as other:
        other.execute(
            "SELECT pg_advisory_lock(hashtextextended("
            "'refresh:window:etl:2026-03-01T00:00+00:00/2026-03-02T00:00+00:00', 0))"
        )
        (done,) = windows.load(day("2026-03-01")).done
        assert done.outcome == "locked"
        assert windows.picture() == before
        assert [done.outcome for done in windows.load_span("2026-03-01", "2026-03-03").done] == ["locked", "loaded"]
        other.execute("SELECT pg_advisory_unlock_all()")
    assert windows.load(day("2026-03-01")).done[0].outcome == "loaded"


def test_of_starts_at_once_one_loads_and_the_others_do_nothing(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    windows.load()
    windows.admin.execute(
        "CREATE FUNCTION etl.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$"
    )
    windows.admin.execute(
        "CREATE TRIGGER slow BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.slow()"
    )
    outcomes: list[tuple[str, ...]] = []

    def one() -> None:
        result = windows.load(*(day(f"2026-03-0{n}") for n in range(1, 7)), only_due=True)
        outcomes.append(tuple(sorted({done.outcome for done in result.done})))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.count(("loaded",)) == 1
    assert set(outcomes) <= {("loaded",), ("locked",), ("unchanged",)}
    assert windows.value("SELECT count(*) FROM etl.window_loads") == 6


def test_a_due_window_that_another_run_loaded_meanwhile_is_unchanged(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    before = windows.picture()
    (done,) = windows.load(day("2026-03-01"), only_due=True).done
    assert (done.outcome, done.rows) == ("unchanged", 0)
    assert windows.picture() == before


def test_windows_cut_by_another_cron_are_refused_before_anything_is_deleted(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    windows.load(day("2026-03-01"))
    before = windows.picture()
    windows.cut("15 4 * * *")
    with pytest.raises(RefreshError, match="were cut by the cron '0 0"):
        windows.load_span("2026-03-01T04:15", "2026-03-02T04:15")
    windows.cut("0 0 * * *", "Europe/Berlin")
    with pytest.raises(RefreshError, match="now say '0 0"):
        windows.due("2026-03-10")
    assert windows.picture() == before


def test_the_database_refuses_two_windows_that_share_a_moment(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    with pytest.raises(Exception, match="window_loads"):
        windows.admin.execute(
            "INSERT INTO etl.window_loads (since, until, rows, rows_digest, source_mark) "
            "VALUES ('2026-03-01T12:00Z', '2026-03-02T12:00Z', 0, '', '')"
        )


@pytest.mark.slow
def test_a_run_over_a_year_is_one_pass_and_one_session(windows: WindowDesk) -> None:
    windows.write(*crowd("2025-06-01T09:00Z", "oak", 9))
    result = windows.load_span("2025-01-01", "2026-01-01")
    assert len(result.of("loaded")) == 365
    assert windows.marker == at("2026-01-01")
    assert windows.value(LOCKS_HELD) == 0


def test_nothing_is_due_when_all_is_loaded(windows: WindowDesk) -> None:
    windows.load_due("2026-03-10T06:00")
    found = windows.due("2026-03-10T07:00")
    assert found.windows == ()
    assert "already up to date" in str(found)


def test_the_first_run_loads_the_windows_that_cover_the_last_days(windows: WindowDesk) -> None:
    found = windows.due("2026-03-10T06:00")
    assert found.missing[0] == day("2026-03-03")
    assert found.missing[-1] == day("2026-03-09")
    assert "the first run" in str(found)


def test_where_too_many_windows_are_due_the_oldest_are_loaded_first(
    windows: WindowDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "MOST_WINDOWS", 3)
    windows.load(day("2026-03-01"))
    due = windows.due("2026-03-20T05:00Z").windows
    assert due == (day("2026-03-02"), day("2026-03-03"), day("2026-03-04"))


def test_a_missed_night_is_loaded_before_the_next(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    result = windows.load_due("2026-03-05T06:00")
    assert [done.window for done in result.done] == [day(f"2026-03-0{n}") for n in (2, 3, 4)]


def test_events_that_come_late_make_a_window_stale_until_the_next_run_counts_them(windows: WindowDesk) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    windows.load_due("2026-03-04T06:00")
    assert windows.look("2026-03-04T06:00") == []
    windows.write(*crowd("2026-03-01T10:00Z", "oak", 2))
    assert windows.look("2026-03-04T06:00") == [day("2026-03-01")]
    assert windows.due("2026-03-04T07:00").stale == (day("2026-03-01"),)
    assert [done.window for done in windows.load_due("2026-03-05T06:00").done] == [day("2026-03-01"), day("2026-03-04")]
    assert windows.events()["2026-03-01"] == {"oak": 11}
    assert windows.due("2026-03-05T06:00").windows == ()


def test_events_that_come_later_than_the_set_age_are_not_looked_for(windows: WindowDesk) -> None:
    windows.load(*(day(f"2026-03-0{n}") for n in range(1, 9)))
    windows.write(*crowd("2026-03-01T10:00Z", "oak", 9))
    assert windows.look("2026-03-08T23:00") == [day("2026-03-01")]
    windows.load(day("2026-03-01"))
    windows.write(*crowd("2026-03-01T11:00Z", "oak", 9))
    assert windows.look("2026-03-09T00:00:01") == []


def test_events_that_come_late_for_a_window_before_a_gap_are_counted_as_well(windows: WindowDesk) -> None:
    windows.load(day("2026-03-05"), day("2026-03-06"))
    windows.load(day("2026-03-02"))
    windows.write(*crowd("2026-03-02T09:00Z", "alga", 6))
    windows.load_due("2026-03-07T05:00Z")
    assert windows.events() == {"2026-03-02": {"alga": 6}}
    assert windows.due("2026-03-07T05:00Z").windows == ()


def test_a_load_that_was_committed_meanwhile_is_not_called_stale_for_what_it_counted(windows: WindowDesk) -> None:
    windows.load(day("2026-03-01"))
    windows.write(*crowd("2026-03-01T11:00Z", "oak", 9))
    windows.load(day("2026-03-01"))
    assert windows.look("2026-03-02T06:00") == []
    assert windows.due("2026-03-02T06:00").windows == ()


@pytest.mark.parametrize(
    ("cron", "since", "until"),
    [
        # The hour from 02:00 does not exist.
        ("30 2 * * *", "2026-03-27T12:00+01:00", "2026-03-31T12:00+02:00"),
        ("0 * * * *", "2026-03-29T00:00+01:00", "2026-03-29T05:00+02:00"),
        # The hour from 02:00 comes twice.
        ("30 2 * * *", "2026-10-23T12:00+02:00", "2026-10-27T12:00+01:00"),
        ("0 * * * *", "2026-10-25T00:00+02:00", "2026-10-25T05:00+01:00"),
        ("15 4 * * 1-5", "2026-03-25T12:00+01:00", "2026-04-02T12:00+02:00"),
    ],
)
def test_in_nights_of_clock_changes_each_event_counts_once(
    windows: WindowDesk, cron: str, since: str, until: str
) -> None:
    windows.cut(cron, "Europe/Berlin")
    moment, count = at(since), 0
    while moment < at(until):
        windows.write(*crowd(moment.isoformat(), "oak", 5))
        moment, count = moment + timedelta(minutes=30), count + 5
    windows.load_span(since, until)
    assert windows.value("SELECT sum(events) FROM etl.activity_metrics") == count
    assert windows.value("SELECT sum(until - since) FROM etl.window_loads") == windows.value(
        "SELECT max(until) - min(since) FROM etl.window_loads"
    )

"""The asset `activity_metrics` in Dagster: partitions, events, checks, schedule, late events."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._utils.schedules import schedule_execution_time_iterator

from refresh_assets import cron
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import SettingsError
from refresh_assets.windows import desk as desk_module
from refresh_assets.windows import grid, session, state
from refresh_assets.windows.assets import METRICS
from refresh_assets.windows.checks import CHECKS
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.partitions import partitions
from refresh_assets.windows.schedules import JOB_NAME, SCHEDULE, only_due_config
from refresh_assets.windows.settings import read_windows
from refresh_assets.windows.source import Seen
from refresh_assets.windows.window import Window
from refresh_assets_tests.windows_fixtures import LookingTable, WindowDesk, at, crowd, day, today


def key(date: str) -> str:
    return f"{date}T00:00+0000"


def days_ago(number: int) -> str:
    return f"{today() - timedelta(days=number):%Y-%m-%d}"


class House:
    """The windows' definitions over a table of events, and an instance of Dagster."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.defs = windows_defs()

    def run(self, first: str, last: str, *, only_due: bool = False) -> dg.ExecuteInProcessResult:
        """Run the job over the partitions of these days, both included."""
        tags = {ASSET_PARTITION_RANGE_START_TAG: key(first), ASSET_PARTITION_RANGE_END_TAG: key(last)}
        return self.execute(tags, only_due_config() if only_due else {})

    def execute(
        self, tags: Mapping[str, str], run_config: Mapping[str, Any] | dg.RunConfig
    ) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(JOB_NAME).execute_in_process(
            instance=self.instance, tags=tags, run_config=run_config, raise_on_error=False
        )

    def status(self, *dates: str) -> list[AssetPartitionStatus | None]:
        partitions = self.defs.resolve_asset_graph().get(METRICS).partitions_def
        assert partitions
        found = self.instance.get_status_by_partition(METRICS, [key(date) for date in dates], partitions)
        return [found[key(date)] for date in dates] if found else []

    def tick(self, moment: datetime | None = None) -> ScheduleExecutionData:
        """Have the schedule tick, now where no moment is given."""
        with dg.build_schedule_context(
            instance=self.instance, scheduled_execution_time=moment or datetime.now(timezone.utc)
        ) as context:
            return self.defs.resolve_schedule_def(SCHEDULE).evaluate_tick(context)

    def requests(self, moment: datetime | None = None) -> Sequence[dg.RunRequest]:
        found = self.tick(moment).run_requests
        assert found is not None
        return found

    def look(self, cursor: str | None = None) -> dg.SensorResult:
        """Have the sensor look for late events."""
        sensor = self.defs.resolve_sensor_def("late_events")
        found = sensor(dg.build_sensor_context(instance=self.instance, cursor=cursor))
        assert isinstance(found, dg.SensorResult)
        return found

    def metadata(self, date: str) -> dict[str, Any]:
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(METRICS, asset_partitions=[key(date)]), limit=1
        ).records
        found = records[0].asset_materialization
        assert found
        return {name: getattr(value, "value", value) for name, value in found.metadata.items()} | {"tags": found.tags}


@pytest.fixture
def house(
    windows: WindowDesk, database: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[House]:
    settings = {"REFRESH_HOME": str(tmp_path), "WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 0 * * *"}
    for name, value in {**database, **settings}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(desk_module, "read_source", lambda _env: windows.source)
    with dg.DagsterInstance.ephemeral() as instance:
        yield House(instance)


def behind(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> float:
    """Have the database's clock reach today so many seconds from now; return when, by time.monotonic."""
    ends = time.monotonic() + seconds
    monkeypatch.setattr(state, "now", lambda _conn: today() - timedelta(seconds=ends - time.monotonic()))
    return ends


MATERIALIZED, FAILED = AssetPartitionStatus.MATERIALIZED, AssetPartitionStatus.FAILED


def test_each_window_of_a_range_is_a_partition_materialized_by_one_run(windows: WindowDesk, house: House) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    assert house.run("2026-03-01", "2026-03-03").success
    dates = ("2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04")
    assert house.status(*dates) == [None, MATERIALIZED, MATERIALIZED, MATERIALIZED, None]
    assert house.instance.get_runs_count() == 1


def test_the_windows_of_a_failed_run_are_shown_as_what_they_are(windows: WindowDesk, house: House) -> None:
    windows.load(day("2026-03-01"))
    windows.admin.execute("ALTER TABLE etl.activity_metrics ADD CONSTRAINT no_bad CHECK (course <> 'bad')")
    windows.write(*crowd("2026-03-02T09:00Z", "bad", 9), *crowd("2026-03-03T09:00Z", "oak", 9))
    result = house.run("2026-03-01", "2026-03-03")
    assert not result.success
    assert house.status("2026-03-01", "2026-03-02", "2026-03-03") == [MATERIALIZED, FAILED, MATERIALIZED]
    assert windows.marker == at("2026-03-02")
    windows.admin.execute("ALTER TABLE etl.activity_metrics DROP CONSTRAINT no_bad")
    assert house.run("2026-03-02", "2026-03-02").success
    assert house.status("2026-03-02") == [MATERIALIZED]
    assert windows.marker == at("2026-03-04")


def test_a_window_that_another_run_holds_is_no_failure_and_not_shown_as_loaded(
    windows: WindowDesk, house: House
) -> None:
    with connect(windows.settings, "test other") as other:
        other.execute(
            "SELECT pg_advisory_lock(hashtextextended("
            "'refresh:window:etl:2026-03-01T00:00+00:00/2026-03-02T00:00+00:00', 0))"
        )
        result = house.run("2026-03-01", "2026-03-02")
    assert result.success
    assert house.status("2026-03-01", "2026-03-02") == [None, MATERIALIZED]
    assert "locked: another run is loading it" in str(result.all_events)


def test_what_a_killed_run_had_loaded_is_told_by_the_next(windows: WindowDesk, house: House) -> None:
    windows.load(day("2026-03-01"), day("2026-03-02"))
    assert house.status("2026-03-01") in ([None], [])
    assert house.run("2026-03-03", "2026-03-03").success
    assert house.status("2026-03-01", "2026-03-02", "2026-03-03") == [MATERIALIZED] * 3


def test_what_a_killed_run_had_loaded_beyond_a_gap_is_told_as_well(windows: WindowDesk, house: House) -> None:
    windows.load(day("2026-03-03"), day("2026-03-06"))
    windows.load(day("2026-03-01"))
    assert house.run("2026-03-08", "2026-03-08").success
    dates = ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-06")
    assert house.status(*dates) == [MATERIALIZED, None, MATERIALIZED, MATERIALIZED]


def test_a_materialization_has_rows_lineage_and_a_version_and_no_total(windows: WindowDesk, house: House) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 4711), *crowd("2026-03-01T09:00Z", "elm", 2))
    assert house.run("2026-03-01", "2026-03-01").success
    found = house.metadata("2026-03-01")
    assert found["dagster/partition_row_count"] == 2
    assert found["window"] == "2026-03-01T00:00+00:00/2026-03-02T00:00+00:00"
    assert found["dagster/table_name"] == "etl.activity_metrics"
    assert found["tags"]["dagster/data_version"] == windows.value("SELECT rows_digest FROM etl.window_loads")
    assert "dagster/column_lineage" in found
    assert not any(number in str(found) for number in ("4711", "4713"))


def test_all_checks_pass_after_a_sound_run_and_name_no_number_of_events(windows: WindowDesk, house: House) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 4711), *crowd("2026-03-01T09:00Z", "elm", 2))
    checks = house.run("2026-03-01", "2026-03-01").get_asset_check_evaluations()
    assert {check.check_name for check in checks} == {check.name for check in CHECKS}
    assert [check for check in checks if not check.passed] == []
    assert not any("47" in str(check.description) for check in checks)


@pytest.mark.parametrize(
    ("spoil", "failed"),
    [
        ("DELETE FROM etl.window_loads WHERE since = '2026-03-02Z'", "no_gap"),
        ("UPDATE etl.activity_metrics SET learners = 3 WHERE course = 'oak'", "suppression"),
        ("UPDATE etl.activity_metrics SET events = events + 1 WHERE since = '2026-03-03Z'", None),
    ],
)
def test_what_somebody_spoiled_fails_a_check(windows: WindowDesk, house: House, spoil: str, failed: str | None) -> None:
    for date in ("2026-03-01", "2026-03-02", "2026-03-03"):
        windows.write(*crowd(f"{date}T09:00Z", "oak", 9))
    assert house.run("2026-03-01", "2026-03-03").success
    windows.admin.execute(spoil)
    checks = house.run("2026-03-03", "2026-03-03").get_asset_check_evaluations()
    assert [check.check_name for check in checks if not check.passed] == ([failed] if failed else [])


def test_rows_that_do_not_agree_with_the_log_fail_a_check(windows: WindowDesk, house: House) -> None:
    windows.load()
    windows.admin.execute(
        "CREATE FUNCTION etl.off() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.events := NEW.events + 1; RETURN NEW; END $$"
    )
    windows.admin.execute(
        "CREATE TRIGGER off BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.off()"
    )
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    checks = house.run("2026-03-01", "2026-03-01").get_asset_check_evaluations()
    assert [check.check_name for check in checks if not check.passed] == ["counts_agree"]


def test_the_schedule_asks_for_the_missing_windows_and_its_run_loads_them(windows: WindowDesk, house: House) -> None:
    windows.load(day(days_ago(5)))
    (request,) = house.requests()
    assert request.tags[ASSET_PARTITION_RANGE_START_TAG] == key(days_ago(4))
    assert request.tags[ASSET_PARTITION_RANGE_END_TAG] == key(days_ago(1))
    assert house.execute(request.tags, request.run_config).success
    assert windows.marker == today()
    skipped = house.tick()
    assert skipped.run_requests == []
    assert "already up to date" in str(skipped.skip_message)


def test_a_tick_on_a_host_whose_clock_is_ahead_asks_for_the_window_that_ends_at_it(
    windows: WindowDesk, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run waits until the window has ended by the database's clock."""
    windows.load(day(days_ago(1)))
    assert house.tick(today()).run_requests == []
    ends = behind(monkeypatch, seconds=4)
    windows.write(*crowd(f"{days_ago(1)}T10:00Z", "oak", 9))
    (request,) = house.requests(today())
    assert request.tags[ASSET_PARTITION_RANGE_START_TAG] == key(days_ago(1))
    assert house.execute(request.tags, request.run_config).success
    assert time.monotonic() >= ends
    assert windows.events() == {days_ago(1): {"oak": 9}}


def test_a_tick_on_a_host_whose_clock_is_far_ahead_leaves_the_window_that_has_not_ended(
    windows: WindowDesk, house: House
) -> None:
    windows.load(day(days_ago(2)))
    (request,) = house.requests(today() + timedelta(days=1))
    assert request.tags[ASSET_PARTITION_RANGE_END_TAG] == key(days_ago(1))
    assert house.execute(request.tags, request.run_config).success
    skipped = house.tick(today() + timedelta(days=1))
    assert skipped.run_requests == []
    assert re.search(r"the tick comes \d+ s too early, so this host's clock is ahead", str(skipped.skip_message))


def test_a_run_over_a_window_that_has_not_ended_is_refused_before_anything_is_changed(
    windows: WindowDesk, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows.load(day(days_ago(3)))
    windows.write(*crowd(f"{days_ago(3)}T10:00Z", "oak", 9))
    rows, loads, _state = windows.picture()
    # The host's clock is a day ahead, and so the partition is one.
    monkeypatch.setattr(state, "now", lambda _conn: today() - timedelta(days=1, hours=1))
    for only_due in (False, True):
        result = house.run(days_ago(3), days_ago(2), only_due=only_due)
        assert not result.success
        assert f"{days_ago(2)}T00:00+00:00/{days_ago(1)}T00:00+00:00 has not ended" in str(result.all_events)
        assert windows.picture()[0] == rows
        # What is due is found by a look at the log, which marks what came late.
        assert only_due or windows.picture()[1] == loads


def test_a_due_run_loads_its_own_windows_whatever_is_due_when_it_starts(windows: WindowDesk, house: House) -> None:
    windows.load(day(days_ago(1)))
    assert house.run(days_ago(3), days_ago(2), only_due=True).success
    assert house.status(days_ago(3), days_ago(2)) == [MATERIALIZED, MATERIALIZED]


def test_a_due_run_loads_stale_windows_beside_its_own(windows: WindowDesk, house: House) -> None:
    windows.load(*(day(days_ago(number)) for number in (5, 4, 3, 2)))
    windows.write(*crowd(f"{days_ago(4)}T10:00Z", "oak", 9))
    (request,) = house.requests()
    assert request.tags[ASSET_PARTITION_RANGE_START_TAG] == key(days_ago(1))
    assert house.execute(request.tags, request.run_config).success
    assert windows.events() == {days_ago(4): {"oak": 9}}
    assert house.status(days_ago(4), days_ago(1)) == [MATERIALIZED, MATERIALIZED]


def test_a_look_at_the_log_may_take_longer_than_a_session_with_locks_may_be_idle(
    windows: WindowDesk, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "IDLE_SECONDS", 3)
    look = LookingTable.look

    def slow(source: LookingTable, wanted: Sequence[Window]) -> Mapping[Window, Seen]:
        time.sleep(3.5)
        return look(source, wanted)

    monkeypatch.setattr(LookingTable, "look", slow)
    windows.load(day(days_ago(2)))
    result = house.run(days_ago(1), days_ago(1), only_due=True)
    assert result.success
    assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == []


def test_late_events_are_shown_as_a_failed_check_until_they_are_counted(windows: WindowDesk, house: House) -> None:
    windows.load(*(day(days_ago(number)) for number in (3, 2, 1)))
    assert house.look().asset_events == []
    windows.write(*crowd(f"{days_ago(2)}T10:00Z", "oak", 9))
    found = house.look()
    (event,) = found.asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert not event.passed
    assert days_ago(2) in str(event.description)
    assert house.look(found.cursor).asset_events == []
    (request,) = house.requests()
    assert house.execute(request.tags, request.run_config).success
    (event,) = house.look(found.cursor).asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert event.passed


def test_years_of_short_windows_are_checked_and_told_like_a_few(
    windows: WindowDesk, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "MOST_WINDOWS", 3)
    monkeypatch.setattr(cron, "MOST", 3)
    windows.load(*(day(f"2026-03-{number:02}") for number in range(1, 9)))
    result = house.run("2026-03-09", "2026-03-15")
    assert result.success
    assert house.status("2026-03-01", "2026-03-08", "2026-03-09", "2026-03-15") == [MATERIALIZED] * 4
    assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == []
    assert windows.marker == at("2026-03-16")


def test_a_window_has_the_key_that_dagster_gives_its_partition() -> None:
    hourly = {"WINDOW_SOURCE": "sample", "WINDOW_CRON": "30 * * * *", "WINDOW_TIMEZONE": "Europe/Berlin"}
    parts = partitions(read_windows(hourly))
    # The night in which an hour comes twice.
    since, until = at("2026-10-24T20:30"), at("2026-10-25T06:30")
    keys = parts.definition.get_partition_keys_in_time_window(dg.TimeWindow(since, until))
    assert [parts.key(window) for window in grid.every(parts.grid, since, until)] == keys
    assert len(set(keys)) == 10


def test_without_an_event_log_there_is_no_asset() -> None:
    assert windows_defs({}).assets in (None, [])


def test_a_cron_that_is_none_is_told_by_its_setting() -> None:
    with pytest.raises(SettingsError, match="WINDOW_CRON names a date that never comes"):
        windows_defs({"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 4 31 4 *"})
    with pytest.raises(SettingsError, match="WINDOW_CRON must be"):
        windows_defs({"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "every day"})


def test_partitions_and_schedule_tick_alike_in_nights_of_clock_changes() -> None:
    defs = windows_defs({"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "30 2 * * *", "WINDOW_TIMEZONE": "Europe/Berlin"})
    partitions = defs.resolve_asset_graph().get(METRICS).partitions_def
    assert isinstance(partitions, dg.TimeWindowPartitionsDefinition)
    window = partitions.time_window_for_partition_key("2026-03-28T02:30+0100")
    assert [window.start.timestamp(), window.end.timestamp()] == [
        at("2026-03-28T01:30").timestamp(),
        at("2026-03-29T01:00").timestamp(),
    ]
    schedule = defs.resolve_schedule_def(SCHEDULE)
    assert isinstance(schedule.cron_schedule, str)
    ticks = schedule_execution_time_iterator(
        at("2026-03-28T00:00").timestamp(), schedule.cron_schedule, schedule.execution_timezone
    )
    assert [next(ticks).timestamp() for _ in range(2)] == [window.start.timestamp(), window.end.timestamp()]

"""`refresh-assets windows run`: in this process, and where that matters as whole ones with the settings alone."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dagster import AssetKey, DagsterInstance, build_schedule_context
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG as RANGE_END
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_START_TAG as RANGE_START

from refresh_assets.cli import main
from refresh_assets.definitions import build_defs
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets.windows.schedules import JOB_NAME, SCHEDULE
from refresh_assets_tests.event_logs import MOODLE
from refresh_assets_tests.shop import Shop
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import storage_of
from refresh_assets_tests.windows_fixtures import today

pytestmark = pytest.mark.slow

SETTINGS = {"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 0 * * *", "WINDOW_START": "2026-01-01"}
SPAN = ("--since", "2026-03-02T00:00Z", "--until", "2026-03-04T00:00Z")
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
FIRST = "2026-03-02T00:00+00:00/2026-03-03T00:00+00:00"


class LogShop:
    """A shop whose database has an event log in Moodle's layout, counted by days."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        shop.env |= SETTINGS
        shop.admin.execute("SET TimeZone = 'UTC'")
        shop.admin.execute(MOODLE.format(name="mdl_logstore_standard_log"))

    def write(self, when: str, course: int, learners: int) -> None:
        self.shop.admin.execute(
            "INSERT INTO mdl_logstore_standard_log (component, action, target, userid, courseid, timecreated) "
            "SELECT 'core', 'viewed', 'course', 100 + n, %s, extract(epoch FROM %s::timestamptz)::bigint "
            "FROM generate_series(1, %s) AS n",
            (course, when, learners),
        )

    def run(self, *args: str) -> tuple[int, list[str], str]:
        """Run the command in this process."""
        done = CliRunner().invoke(main, ["windows", "run", *args])
        return done.exit_code, done.stdout.splitlines(), done.stderr

    def run_json(self, *args: str) -> list[dict[str, Any]]:
        _code, lines, err = self.run("--json", *args)
        assert lines, err
        return [json.loads(line) for line in lines]

    def digest_after(self, load: Callable[[], object]) -> str:
        """Load into empty tables and return the digest of the rows."""
        self.shop.admin.execute("DROP TABLE IF EXISTS etl.activity_metrics, etl.window_loads, etl.window_state")
        load()
        assert self.shop.rows("SELECT count(*) FROM etl.activity_metrics") == [(5,)]
        return self.digest()

    def digest(self) -> str:
        return str(
            self.shop.rows(
                "SELECT md5(string_agg(m::text, '|' ORDER BY since, course, kind)) FROM etl.activity_metrics AS m"
            )[0][0]
        )


def span(days: Sequence[datetime]) -> list[str]:
    return ["--since", days[0].isoformat(), "--until", (days[-1] + timedelta(days=1)).isoformat()]


@pytest.fixture
def log(shop_here: Shop, monkeypatch: pytest.MonkeyPatch) -> LogShop:
    monkeypatch.setenv("DAGSTER_HOME", "")
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return LogShop(shop_here)


def test_windows_are_loaded_and_told_in_a_line_each(log: LogShop) -> None:
    log.write("2026-03-02T10:00Z", 2, 9)
    log.write("2026-03-02T10:00Z", 3, 4)
    code, lines, err = log.run(*SPAN)
    assert (code, err) == (0, "")
    assert re.fullmatch(f"{STAMP} INFO windows: {re.escape(FIRST)}: loaded 2 rows", lines[0])
    assert re.fullmatch(f"{STAMP} INFO windows: 2026-03-03T00:00.*/2026-03-04T00:00.*: loaded 0 rows", lines[1])
    rows = log.shop.rows("SELECT course, events, learners, suppressed FROM etl.activity_metrics ORDER BY course")
    assert rows == [("2", 9, 9, False), ("3", None, None, True)]
    before = log.digest()
    (first, second) = log.run_json(*SPAN)
    assert (first["since"], first["until"]) == tuple(FIRST.split("/"))
    assert (first["outcome"], first["rows"], first["error"], second["rows"]) == ("loaded", 2, None, 0)
    assert log.digest() == before
    with storage_of(Path(log.shop.env["REFRESH_HOME"])) as instance:
        run = instance.get_run_by_id(first["run_id"])
        assert run is not None
        assert run.is_success
        assert run.asset_selection == {AssetKey("activity_metrics")}
        assert instance.get_materialized_partitions(AssetKey("activity_metrics")) == {
            "2026-03-02T00:00+0000",
            "2026-03-03T00:00+0000",
        }


def test_what_is_due_is_loaded_then_nothing_is(log: LogShop) -> None:
    log.write((today() - timedelta(hours=3)).isoformat(), 2, 9)
    code, lines, err = log.run()
    assert (code, err) == (0, "")
    assert "the first run loads the windows of the last days" in lines[0]
    assert sum("loaded" in line and "/" in line for line in lines[1:]) in (7, 8)
    assert log.shop.rows("SELECT marker FROM etl.window_state") == [(today(),)]
    code, lines, err = log.run()
    assert (code, err) == (0, "")
    assert lines[-1].endswith(" INFO windows: already up to date")
    (report,) = log.run_json()
    assert (report["outcome"], report["since"], report["error"]) == ("up to date", None, None)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--since", "2026-03-02T00:00Z"), "until is missing"),
        (("--since", "2026-03-02T00:00", "--until", "2026-03-03T00:00Z"), "has no time zone"),
        (("--since", "2026-03-03T00:00Z", "--until", "2026-03-02T00:00Z"), "must come after"),
        (("--since", "2026-02-30T00:00Z", "--until", "2026-03-02T00:00Z"), "is no time"),
        (("--since", "2026-03-03T00:00Z", "--until", "2199-03-02T00:00Z"), "in the future"),
    ],
)
def test_a_bad_wish_is_refused(log: LogShop, args: tuple[str, ...], why: str) -> None:
    code, lines, _err = log.run(*args)
    assert code == 1
    assert re.match(rf"{STAMP} ERROR windows: failed: .*{why}", lines[-1])
    assert log.shop.rows("SELECT to_regclass('etl.window_loads')") == [(None,)]


def test_bounds_that_cut_windows_are_widened_and_it_says_so(log: LogShop) -> None:
    code, lines, _err = log.run("--since", "2026-03-02T10:00Z", "--until", "2026-03-02T11:00Z")
    assert code == 0
    assert f"was widened to whole windows: {FIRST}" in lines[0]
    assert lines[1].endswith(f"{FIRST}: loaded 0 rows")


def looked_at() -> str:
    """Return what `check` says of the event log."""
    lines = CliRunner().invoke(main, ["check"]).stdout.splitlines()
    (line,) = [line for line in lines if "event log: " in line]
    return line


def test_check_names_the_setting_of_a_cron_that_is_none(log: LogShop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at().startswith("ok     event log: ")
    monkeypatch.setenv("WINDOW_CRON", "61 5 * * *")
    assert looked_at().startswith("FAILED event log: WINDOW_CRON must be a cron expression")


def test_check_says_that_the_loaded_windows_were_cut_by_another_cron(
    log: LogShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.run(*SPAN)
    assert looked_at().startswith("ok     event log: ")
    monkeypatch.setenv("WINDOW_CRON", "0 5 * * *")
    assert looked_at().startswith("FAILED event log: the windows in etl.window_loads were cut by the cron '0 0 * * *'")


def test_check_run_and_status_say_that_the_loaded_windows_were_counted_from_another_kind_of_log(
    log: LogShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.run(*SPAN)
    assert looked_at().startswith("ok     event log: ")
    monkeypatch.setenv("WINDOW_SOURCE", "sample")
    said = "the windows in etl.window_loads were counted from the event log 'moodle'"
    assert looked_at().startswith(f"FAILED event log: {said}")
    code, lines, _err = log.run()
    assert code == 1
    assert said in lines[-1]
    status = CliRunner().invoke(main, ["status"])
    assert status.exit_code == 1
    assert f"FAILED windows: {said}" in status.stdout
    assert "datasets: never loaded" in status.stdout


def test_without_an_event_log_it_says_which_setting_is_missing(log: LogShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDOW_SOURCE", " ")
    code, lines, _err = log.run()
    assert code == 1
    assert "WINDOW_SOURCE" in lines[-1]


def test_backfill_schedule_and_command_line_leave_the_same_rows(log: LogShop) -> None:
    days = [today() - timedelta(days=age) for age in (5, 4, 3, 2, 1)]
    for number, midnight in enumerate(days):
        for minutes in (0, 17, 1439):
            log.write((midnight + timedelta(minutes=minutes)).isoformat(), number, 3 + number)
    repository = build_defs().get_repository_def()
    digests = {"command line": log.digest_after(lambda: log.run(*span(days)))}
    digests["command line, one by one"] = log.digest_after(lambda: [log.run(*span([day])) for day in reversed(days)])
    now = datetime.now(timezone.utc)
    with DagsterInstance.ephemeral() as instance, build_schedule_context(instance, now) as context:

        def execute(tags: Mapping[str, str], run_config: Mapping[str, Any] | None = None) -> None:
            done = repository.get_job(JOB_NAME).execute_in_process(
                instance=instance, tags=dict(tags), run_config=run_config or {}
            )
            assert done.success

        def by_schedule() -> None:
            assert log.run(*span(days[:1]))[0] == 0
            (request,) = repository.get_schedule_def(SCHEDULE).evaluate_tick(context).run_requests or ()
            execute(request.tags, request.run_config)

        digests["backfill"] = log.digest_after(
            lambda: execute(
                {RANGE_START: f"{days[0]:%Y-%m-%d}T00:00+0000", RANGE_END: f"{days[-1]:%Y-%m-%d}T00:00+0000"}
            )
        )
        digests["schedule"] = log.digest_after(by_schedule)
    assert len(set(digests.values())) == 1, digests


def test_the_settings_alone_are_enough(log: LogShop) -> None:
    log.write("2026-03-02T10:00Z", 2, 9)
    code, out, err = log.shop.run("windows", "run", *SPAN)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith(f"{FIRST}: loaded 1 rows")


def test_of_two_starts_at_once_one_loads_and_the_other_says_why_not(log: LogShop) -> None:
    log.write("2026-03-02T10:00Z", 2, 9)
    assert log.run(*SPAN)[0] == 0
    with connect(read_postgres(log.shop.env), "test other") as other, other.transaction():
        other.execute("LOCK TABLE etl.activity_metrics IN SHARE MODE")
        first = log.shop.start("windows", "run", *SPAN)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_until(lambda: log.shop.rows(waits) == [(1,)])
        code, lines, err = log.run(*SPAN)
    assert (code, err) == (0, "")
    assert [line.partition(": ")[2].split(": ")[1] for line in lines] == ["locked", "locked"]
    out, _err = first.communicate(timeout=60)
    assert first.returncode == 0
    assert out.count("loaded") == 2


def test_a_run_that_is_ended_leaves_rows_and_marker_together_and_is_told_as_failed(log: LogShop) -> None:
    log.write("2026-03-02T10:00Z", 2, 9)
    log.write("2026-03-03T10:00Z", 2, 9)
    assert log.run("--since", "2026-03-01T00:00Z", "--until", "2026-03-02T00:00Z")[0] == 0
    log.shop.admin.execute(
        "CREATE FUNCTION etl.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.since >= '2026-03-03Z' THEN PERFORM pg_sleep(30); END IF; RETURN NEW; END $$"
    )
    log.shop.admin.execute(
        "CREATE TRIGGER slow BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.slow()"
    )
    process = log.shop.start("windows", "run", *SPAN)
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    wait_until(lambda: log.shop.rows(sleeps) == [(1,)])
    process.send_signal(signal.SIGTERM)
    out, _err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{FIRST}: loaded 1 rows" in out
    assert "2026-03-03T00:00+00:00/2026-03-04T00:00+00:00: failed: " in out
    assert log.shop.rows("SELECT marker::date::text FROM etl.window_state") == [("2026-03-03",)]
    assert log.shop.rows("SELECT DISTINCT since::date::text FROM etl.activity_metrics") == [("2026-03-02",)]


def test_a_reason_of_several_lines_is_told_in_one(log: LogShop) -> None:
    log.run(*SPAN)
    log.shop.admin.execute(
        "CREATE FUNCTION etl.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE E'one\\ntwo'; END $$"
    )
    log.shop.admin.execute(
        "CREATE TRIGGER no BEFORE INSERT ON etl.activity_metrics FOR EACH ROW EXECUTE FUNCTION etl.no()"
    )
    log.write("2026-03-02T10:00Z", 2, 9)
    code, lines, _err = log.run(*SPAN)
    assert code == 1
    assert len(lines) == 2
    assert f"{FIRST}: failed: one two" in lines[0]


def test_hidden_numbers_and_totals_and_passwords_are_in_no_event_of_the_run(log: LogShop) -> None:
    log.write("2026-03-02T10:00Z", 2, 3457)
    log.write("2026-03-02T10:00Z", 3, 4)
    code, lines, err = log.run(*SPAN)
    assert code == 0
    events = "".join(str(row[0]) for row in log.shop.rows("SELECT event FROM dagster.event_logs"))
    assert "loaded 2 rows" in events
    for text in (events, "\n".join(lines), err):
        assert not re.search(r"(?<!\d)346[01](?!\d)|3457", text)
        assert log.shop.env["PGPASSWORD"] not in text

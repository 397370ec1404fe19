"""What the failure sensor tells of windows that are due and not loaded."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from refresh_assets.alerts.collect_trouble import lasting
from refresh_assets.alerts.status import Part
from refresh_assets.cron import CronTicks
from refresh_assets.definitions import build_defs
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets.windows.due import Plan
from refresh_assets.windows.load import Loading, Result, load
from refresh_assets.windows.overdue import overdue_windows, windows_part
from refresh_assets.windows.window import Window
from refresh_assets_tests.smtp_server import Caught
from refresh_assets_tests.test_windows_command import SETTINGS, LogShop
from refresh_assets_tests.watchtower import UI, Watchtower
from refresh_assets_tests.windows_fixtures import START, TableOfEvents, today

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


class Nights:
    """A watchtower over windows of an hour each, which must be loaded half an hour after their end."""

    def __init__(self, tower: Watchtower) -> None:
        self.tower = tower
        self.passed = timedelta()
        tower.shop.admin.execute("CREATE TABLE log (id bigserial, happened_at timestamptz, course text, learner text)")

    def load(self, *ages: int) -> None:
        """Load the windows that ended so many hours before this one began."""
        plan = Plan("etl", CronTicks("0 * * * *", "UTC", START), "moodle", timedelta(days=1), timedelta(days=1))
        with connect(read_postgres(), "test windows") as conn:
            for _done in load(conn, Loading(plan, TableOfEvents(), 5), [window(age) for age in ages], Result()):
                pass

    def subjects(self) -> list[str]:
        return [str(caught.mail["Subject"]) for caught in self.told()]

    def told(self) -> list[Caught]:
        before = len(self.tower.mailserver.mails)
        self.tower.look([lasting("window", lambda now, env: overdue_windows(now + self.passed, env))])
        return self.tower.mailserver.mails[before:]


def window(age: int) -> Window:
    this_hour = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
    return Window(this_hour - (age + 1) * HOUR, this_hour - age * HOUR)


@pytest.fixture
def nights(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> Nights:
    settings = {"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 * * * *", "WINDOW_MAX_DELAY": "5400"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return Nights(tower)


def test_a_window_that_is_due_and_not_loaded(nights: Nights) -> None:
    nights.load(4, 3)
    (caught,) = nights.told()
    assert str(caught.mail["Subject"]).startswith(f"[refresh] activity_metrics is overdue: not loaded: {window(2)}")
    assert "loaded without a gap up to" in caught.text()
    assert "refresh-assets windows run" in caught.text()
    assert str(window(0)) not in caught.text()
    assert nights.subjects() == []
    nights.load(2, 1, 0)
    (subject,) = nights.subjects()
    assert subject.startswith("[refresh] activity_metrics recovered")
    assert nights.subjects() == []


def test_windows_that_follow_each_other_share_a_mail_and_others_get_their_own(nights: Nights) -> None:
    nights.load(9, 6, 3, 2, 1, 0)
    first, second = nights.told()
    assert [str(window(age)) in first.text() for age in (8, 7, 5, 4)] == [True, True, False, False]
    assert [str(window(age)) in second.text() for age in (8, 7, 5, 4)] == [False, False, True, True]
    assert nights.subjects() == []


def test_windows_within_their_limit_are_not_told_of(nights: Nights) -> None:
    nights.load(4, 3, 2, 1)
    assert nights.subjects() == []


def test_windows_that_were_never_loaded_are_told_of_once(nights: Nights) -> None:
    (caught,) = nights.told()
    assert "never loaded" in caught.text()
    assert nights.subjects() == []


def test_windows_that_were_never_loaded_stay_the_same_trouble_when_the_days_pass(nights: Nights) -> None:
    (first,) = nights.subjects()
    for days in (1, 3):
        nights.passed = timedelta(days=days)
        assert nights.subjects() == []
    assert "activity_metrics is overdue" in first


def test_windows_of_which_some_were_loaded_are_the_same_trouble_until_all_are(nights: Nights) -> None:
    nights.load(9)
    assert len(nights.subjects()) == 1
    nights.load(8)
    nights.load(5)
    assert nights.subjects() == []
    nights.load(7, 6, 4, 3, 2, 1, 0)
    assert [subject.split(":")[0] for subject in nights.subjects()] == ["[refresh] activity_metrics recovered"]


def test_a_window_that_is_missing_anew_is_told_while_another_still_is(nights: Nights) -> None:
    nights.load(9, 7, 6, 5, 4, 3, 2, 1, 0)
    (first,) = nights.subjects()
    nights.tower.shop.admin.execute("DELETE FROM etl.window_loads WHERE since = %s", [window(4).since])
    (second,) = nights.subjects()
    assert (str(window(8)) in first, str(window(4)) in second) == (True, True)
    nights.load(8)
    assert nights.subjects() == []
    nights.tower.shop.admin.execute("DELETE FROM etl.window_loads WHERE since = %s", [window(8).since])
    (third,) = nights.subjects()
    assert str(window(8)) in third
    nights.load(8, 4)
    assert len(nights.subjects()) == 1


def test_status_tells_how_windows_stand_and_what_is_overdue(nights: Nights) -> None:
    nights.load(9, 4)
    found = windows_part(datetime.now(timezone.utc))
    assert isinstance(found, Part)
    assert found.line.startswith("FAILED activity_metrics: loaded without a gap up to")
    assert found.wrong[0].startswith(f"activity_metrics is overdue: {window(8)}")
    assert (found.told["overdue"], found.told["limit_seconds"], found.told["stale"]) == (True, 5400, [])
    nights.load(8, 7, 6, 5, 3, 2, 1, 0)
    found = windows_part(datetime.now(timezone.utc))
    assert found is not None
    assert found.line.startswith("ok     activity_metrics: ")
    assert (found.wrong, found.told["missing"], found.told["overdue"]) == ([], [], False)


def test_without_an_event_log_nothing_is_told_of_windows(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.load(9)
    monkeypatch.setenv("WINDOW_SOURCE", "")
    assert nights.subjects() == []


def test_a_failed_load_is_told_with_what_is_there_and_how_to_load_again(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**SETTINGS, "WINDOW_BOOTSTRAP_DAYS": "3"}.items():
        monkeypatch.setenv(name, value)
    log = LogShop(tower.shop)
    log.run()
    log.write((today() - timedelta(hours=3)).isoformat(), 2, 9)
    tower.shop.admin.execute("ALTER TABLE etl.activity_metrics ADD CONSTRAINT odd CHECK (course <> '2')")
    code, _out, _err = log.run()
    assert code == 1
    monkeypatch.setattr(tower, "repository", build_defs().get_repository_def())
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]).startswith("[refresh] activity_metrics_windows failed: 1 of 1 windows failed: ")
    assert re.search(r"State: +last materialized \d{4}-", caught.text())
    assert "or with `refresh-assets windows run`" in caught.text()
    assert f"{UI}/assets/activity_metrics\n" in caught.text()


@dg.op
def count() -> None:
    context = dg.OpExecutionContext.get()
    how = context.run.tags["how"]
    if how == "failed":
        raise RuntimeError("no such log")
    context.log_event(dg.AssetObservation("activity_metrics", metadata={"outcome": how}))


@dg.job
def windows_of_a_night() -> None:
    count()


def test_a_run_that_met_another_one_is_no_recovery(tower: Watchtower) -> None:
    def subjects_after(how: str) -> list[str]:
        tags = {"how": how}
        windows_of_a_night.execute_in_process(instance=tower.instance, tags=tags, raise_on_error=False)
        return [str(caught.mail["Subject"]) for caught in tower.told()]

    (failed,) = subjects_after("failed")
    assert failed.startswith("[refresh] windows_of_a_night failed")
    assert subjects_after("locked") == []
    (recovered,) = subjects_after("loaded")
    assert recovered.startswith("[refresh] windows_of_a_night recovered")

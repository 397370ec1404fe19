"""What the failure sensor tells of windows that are due and not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from refresh_assets.alerts.collect_windows import overdue_windows
from refresh_assets.alerts.standing import standing
from refresh_assets.cron import CronTicks
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets.windows.due import Plan
from refresh_assets.windows.load import Loading, Result, load
from refresh_assets.windows.window import Window
from refresh_assets_tests.watchtower import Watchtower
from refresh_assets_tests.windows_fixtures import START, TableOfEvents

HOUR = timedelta(hours=1)
NOW = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)


class Nights:
    """A watchtower over windows of an hour each, which must be loaded half an hour after their end."""

    def __init__(self, tower: Watchtower) -> None:
        self.tower = tower
        tower.shop.admin.execute("CREATE TABLE log (id bigserial, happened_at timestamptz, course text, learner text)")

    def load(self, *ages: int) -> None:
        """Load the windows that ended so many hours before this one began."""
        plan = Plan("etl", CronTicks("0 * * * *", "UTC", START), timedelta(days=1), timedelta(days=1))
        with connect(read_postgres(), "test windows") as conn:
            for _done in load(conn, Loading(plan, TableOfEvents(), 5), [window(age) for age in ages], Result()):
                pass

    def watched_since(self, hours: float) -> None:
        """Let the sensor have watched windows for so long."""
        self.subjects()
        self.tower.sql(
            "UPDATE refresh_alerts.spell SET began_at = began_at - interval '"
            f"{hours} hours' WHERE kind = 'watched windows'"
        )

    def subjects(self) -> list[str]:
        return [str(caught.mail["Subject"]) for caught in self.told()]

    def told(self) -> list[Any]:
        before = len(self.tower.mailserver.mails)
        self.tower.look([overdue_windows])
        return self.tower.mailserver.mails[before:]


def window(age: int) -> Window:
    return Window(NOW - (age + 1) * HOUR, NOW - age * HOUR)


@pytest.fixture
def nights(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    settings = {"WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 * * * *", "WINDOW_MAX_DELAY": "5400"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return Nights(tower)


def test_a_window_that_is_due_and_not_loaded(nights: Nights) -> None:
    nights.load(4, 3)
    assert nights.subjects() == []
    nights.watched_since(24)
    (caught,) = nights.told()
    assert str(caught.mail["Subject"]).startswith(f"[refresh] activity_metrics is overdue: not loaded: {window(2)}")
    assert "the schedule activity_metrics_schedule never ticked" in caught.text()
    assert "refresh-assets windows run" in caught.text()
    assert str(window(1)) not in caught.text() or NOW - HOUR + timedelta(seconds=5400) < datetime.now(timezone.utc)
    assert nights.subjects() == []
    nights.load(2, 1, 0)
    (subject,) = nights.subjects()
    assert subject.startswith("[refresh] activity_metrics recovered")
    assert nights.subjects() == []


def test_windows_that_are_overdue_together_share_a_mail_and_a_later_one_gets_its_own(nights: Nights) -> None:
    nights.load(9, 4)
    nights.watched_since(24)
    (caught,) = nights.told()
    assert all(str(window(age)) in caught.text() for age in (8, 7, 6, 5))
    nights.tower.sql(f"DELETE FROM refresh_alerts.spell WHERE about = '{window(5)}'")
    nights.tower.sql(f"DELETE FROM refresh_alerts.alert_outbox WHERE event_key LIKE '%{window(5)}%'")
    (again,) = nights.told()
    assert str(window(5)) in again.text()
    assert str(window(6)) not in again.text()


def test_windows_that_are_new_to_the_sensor_get_their_time(nights: Nights) -> None:
    assert nights.subjects() == []
    nights.watched_since(1)
    assert nights.subjects() == []
    nights.watched_since(24)
    assert len(nights.subjects()) == 1


def test_status_tells_how_windows_stand_and_what_is_overdue(nights: Nights) -> None:
    nights.load(9, 4)
    found = standing(nights.tower.instance, nights.tower.repository)
    (line,) = [line for line in found.lines() if line.startswith("FAILED activity_metrics: ")]
    assert "loaded up to" in line
    assert any("activity_metrics is overdue since" in wrong for wrong in found.wrong)
    told = found.as_json()["windows"]
    assert (told["overdue"], told["limit_seconds"], told["stale"]) == (True, 5400, [])
    assert told["missing"][0] == str(window(8))
    nights.load(8, 7, 6, 5, 3, 2, 1, 0)
    found = standing(nights.tower.instance, nights.tower.repository)
    assert any(line.startswith("ok     activity_metrics: ") for line in found.lines())
    assert not found.as_json()["windows"]["overdue"]


def test_without_an_event_log_nothing_is_told_of_windows(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.load(9)
    nights.watched_since(24)
    monkeypatch.setenv("WINDOW_SOURCE", "")
    assert nights.subjects() == []

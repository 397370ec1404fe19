"""The failure sensor itself: what it does where its own work, or the mail, is in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import pytest

from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.sensors import COLLECTORS, failure_mail
from refresh_assets_tests.smtp_server import unreachable
from refresh_assets_tests.watchtower import Watchtower, mail_settings

pytestmark = pytest.mark.slow


def broken(_look: Look) -> Iterator[Alert]:
    raise RuntimeError("the storage is odd")
    yield


def test_a_collector_that_fails_does_not_keep_the_others_from_telling(tower: Watchtower) -> None:
    tower.fail(tower.create_run(), "a failure")
    for _look in range(2):
        with pytest.raises(LookFailedError, match="broken: RuntimeError: the storage is odd"):
            tower.look([broken, *COLLECTORS])
    subjects = [str(caught.mail["Subject"]) for caught in tower.mailserver.mails]
    assert subjects == [
        "[refresh] failure_mail failed: broken: RuntimeError: the storage is odd",
        "[refresh] datasets failed: a failure",
    ]


def test_a_collector_that_fails_in_the_middle_goes_on_from_there(tower: Watchtower) -> None:
    for number in range(3):
        tower.fail(tower.create_run(), f"failure {number}")

    def stumbling(look: Look) -> Iterator[Alert]:
        for count, alert in enumerate(COLLECTORS[1](look)):
            if count == 1:
                raise RuntimeError("stumbled")
            yield alert

    with pytest.raises(LookFailedError, match="stumbled"):
        tower.look([stumbling])
    tower.look()
    told = [row[0] for row in tower.outbox() if "failure_mail" not in row[0]]
    assert told == [f"[refresh] datasets failed: failure {number}" for number in range(3)]


@pytest.mark.parametrize("age", [timedelta(), timedelta(hours=5)])
def test_a_run_that_cannot_be_read_is_told_at_the_second_look_and_keeps_no_other_from_being_told(
    tower: Watchtower, age: timedelta
) -> None:
    odd, plain = tower.create_run(), tower.create_run()
    tower.fail(odd)
    tower.dated(odd, age)
    tower.fail(plain, "a failure")
    tower.shop.admin.execute("UPDATE dagster.event_logs SET event = 'odd' WHERE run_id = %s", [odd.run_id])
    with pytest.raises(LookFailedError, match=f"ended_runs: RefreshError: 1 run could not be read: run {odd.run_id}"):
        tower.look()
    tower.look()
    subjects = [str(caught.mail["Subject"]) for caught in tower.mailserver.mails]
    assert subjects[0] == "[refresh] datasets failed: a failure"
    assert subjects[1].startswith("[refresh] failure_mail failed: ended_runs: RefreshError: 1 run could not be read")
    assert subjects[2].startswith(f"[refresh] datasets ended in FAILURE: run {odd.run_id}: ")
    assert tower.told() == []


def test_a_mail_server_that_is_down_makes_no_tick_fail_and_the_tick_says_so(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_PORT", str(unreachable().port))
    tower.fail(tower.create_run())
    assert tower.look().startswith("0 mails sent, 1 owed; the last error: ")


def test_without_mail_the_tick_says_that_nobody_will_be_told_and_mail_stays_owed(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in mail_settings(tower.mailserver):
        monkeypatch.delenv(name)
    tower.fail(tower.create_run())
    told = tower.look()
    assert told == "SMTP_HOST and ALERT_TO are not set: nobody will be told of failures; 1 mail owed"
    assert told in caplog.text
    assert tower.outbox("sent_at") == [(None,)]


def test_half_of_the_mail_settings_make_the_tick_fail_after_what_happened_is_recorded(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALERT_TO")
    tower.fail(tower.create_run())
    with pytest.raises(LookFailedError, match="ALERT_TO"):
        tower.look()
    assert len(tower.outbox()) == 1


def test_the_sensor_is_on_by_default_and_its_tick_says_what_it_did(tower: Watchtower) -> None:
    sensor = tower.repository.get_sensor_def("failure_mail")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert sensor.minimum_interval_seconds == 15
    tower.fail(tower.create_run())
    context = dg.build_sensor_context(instance=tower.instance, repository_def=tower.repository)
    assert failure_mail(15).evaluate_tick(context).skip_message == "1 mail sent, 0 owed"

"""Clocks that are wrong for a while: nothing that happens is hidden by an instant that was noted by them."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest

from refresh_assets.alerts.collect_dead import dead_runs
from refresh_assets_tests.test_alerts_heartbeat import started, state
from refresh_assets_tests.test_alerts_waiting import verified
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import Watchtower

pytestmark = pytest.mark.slow

A_YEAR = "interval '1 year'"


def test_what_a_clock_far_ahead_noted_hides_no_failure_after_it_was_put_right(tower: Watchtower) -> None:
    tower.look()
    tower.sql(f"UPDATE refresh_alerts.noted SET instant = instant + {A_YEAR}")
    tower.fail(tower.create_run())
    assert len(tower.told()) == 1


def test_a_run_on_a_host_whose_clock_is_a_day_slow_is_told(tower: Watchtower) -> None:
    tower.fail(tower.create_run())
    tower.look()
    slow = tower.create_run()
    tower.fail(slow, "by a slow clock")
    tower.dated(slow, timedelta(hours=30))
    assert tower.subjects() == ["[refresh] datasets failed: by a slow clock"]
    assert tower.told() == []


def test_a_success_on_a_host_whose_clock_is_slow_tells_its_failed_check(tower: Watchtower) -> None:
    tower.refresh()
    tower.look()
    tower.shop.admin.execute("UPDATE etl.datasets SET title = 'Odd' WHERE title = 'Dataset 1'")
    run = tower.instance.get_run_by_id(tower.refresh())
    assert run is not None
    tower.dated(run, timedelta(hours=30))
    (subject,) = tower.subjects()
    assert subject.startswith("[refresh] datasets failed a check: drift")


def test_what_ended_before_the_first_look_is_no_news_by_its_number_either(tower: Watchtower) -> None:
    old = tower.create_run()
    tower.fail(old)
    tower.dated(old, timedelta(hours=30))
    assert tower.told() == []
    assert tower.told() == []


def test_mail_that_was_put_off_by_a_clock_far_ahead_is_sent(tower: Watchtower) -> None:
    tower.fail(tower.create_run())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMTP_PORT", "1")
        tower.look()
    tower.sql(f"UPDATE refresh_alerts.alert_outbox SET next_attempt_at = next_attempt_at + {A_YEAR}")
    assert len(tower.told()) == 1


def test_a_run_that_died_with_a_heartbeat_in_the_future_is_ended(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFRESH_HEARTBEAT", "0.1")
    run = started(tower)
    tower.look([dead_runs])
    tower.sql(
        f"UPDATE refresh_alerts.run_heartbeat SET beat_at = beat_at + {A_YEAR}, suspected_at = beat_at + {A_YEAR}"
    )
    wait_until(lambda: tower.look([dead_runs]) and state(tower, run) == "FAILURE")


def test_a_table_that_was_verified_in_the_future_is_overdue_in_the_end(tower: Watchtower) -> None:
    verified(tower, -365)
    tower.look()
    tower.sql("UPDATE refresh_alerts.spell SET began_at = began_at - interval '9 days'")
    assert "[refresh] datasets is overdue: not verified for 9 d 0 h" in tower.subjects()


def test_of_verifications_in_the_future_only_the_last_one_of_a_table_is_remembered(tower: Watchtower) -> None:
    tower.look()
    tower.sql("INSERT INTO refresh_alerts.spell VALUES ('verified ahead of time', 'an earlier run', now())")
    verified(tower, -365)
    tower.look()
    found = tower.sql("SELECT about FROM refresh_alerts.spell WHERE kind = 'verified ahead of time'")
    assert len(found) == 1
    assert found != [("an earlier run",)]


def test_a_table_that_was_first_seen_in_the_future_is_overdue_in_the_end(tower: Watchtower) -> None:
    tower.look()
    tower.sql(f"UPDATE refresh_alerts.spell SET began_at = began_at + {A_YEAR} WHERE kind = 'watched'")
    tower.look()
    tower.sql("UPDATE refresh_alerts.spell SET began_at = began_at - interval '9 days' WHERE kind = 'watched'")
    assert len(tower.told()) == 2


def test_a_retry_that_was_awaited_by_a_clock_far_ahead_is_missed(tower: Watchtower) -> None:
    run = tower.create_run(tags={"dagster/will_retry": "true"}, status=dg.DagsterRunStatus.STARTED)
    tower.fail(run)
    assert tower.told() == []
    tower.sql(f"UPDATE refresh_alerts.seen_run SET seen_at = seen_at + {A_YEAR}")
    assert len(tower.told()) == 1

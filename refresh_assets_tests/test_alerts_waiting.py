"""What the failure sensor tells of what does not happen: starts of runs, verifications of tables, sound ticks."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    TickData,
    TickStatus,
)
from dagster_shared.error import SerializableErrorInfo

from refresh_assets.alerts.look import LookFailedError
from refresh_assets_tests.watchtower import UI, Watchtower, ago, schedule_state

pytestmark = pytest.mark.slow

SCHEDULE = "weekly_refresh_schedule"


# Runs that do not start


def aged(tower: Watchtower, run: dg.DagsterRun, minutes: float) -> dg.DagsterRun:
    when = ago(minutes=minutes).replace(tzinfo=None)
    tower.shop.admin.execute(
        "UPDATE dagster.runs SET create_timestamp = %s, update_timestamp = %s WHERE run_id = %s",
        [when, when, run.run_id],
    )
    return run


@pytest.mark.parametrize("status", ["QUEUED", "NOT_STARTED", "STARTING"])
def test_a_run_that_does_not_start_is_told_once(tower: Watchtower, status: str) -> None:
    run = tower.create_run(status=dg.DagsterRunStatus(status))
    assert tower.told() == []
    aged(tower, run, 9)
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]).startswith(
        f"[refresh] datasets is stuck: run {run.run_id[:8]} is {status} since"
    )
    assert f"{UI}/runs/{run.run_id}" in caught.text()
    assert tower.told() == []


def test_runs_of_a_job_that_wait_together_share_a_mail_and_a_later_one_gets_its_own(tower: Watchtower) -> None:
    for _run in range(30):
        aged(tower, tower.create_run(status=dg.DagsterRunStatus.QUEUED), 9)
    (caught,) = tower.told()
    assert "30 runs did not start within 8 min; the first of them: job weekly_refresh" in caught.text()
    assert "and 10 more" in caught.text()
    aged(tower, tower.create_run(status=dg.DagsterRunStatus.QUEUED), 9)
    assert len(tower.told()) == 1


def test_a_run_that_waited_before_the_first_look_began_to_look_is_history(tower: Watchtower) -> None:
    aged(tower, tower.create_run(), 25 * 60)
    assert tower.told() == []


# Tables that nobody verifies


def verified(tower: Watchtower, days: float, outcome: str = "unchanged", **told: Any) -> None:
    """Let the last materialization of datasets be so old."""
    table = dg.AssetMaterialization("datasets_table", metadata={"outcome": outcome, **told})
    tower.instance.report_runless_asset_event(table)
    tower.shop.admin.execute(
        "UPDATE dagster.event_logs SET timestamp = timestamp - make_interval(secs => %(age)s), event = "
        "regexp_replace(event, '\"timestamp\": ([0-9.]+)', '\"timestamp\": ' || "
        "(extract(epoch FROM clock_timestamp()) - %(age)s)::text) "
        "WHERE id = (SELECT max(id) FROM dagster.event_logs)",
        {"age": days * 86400},
    )


def noted(tower: Watchtower, status: InstigatorStatus, name: str = SCHEDULE) -> InstigatorState:
    """Leave in the storage what the daemon leaves of a schedule."""
    return tower.instance.add_instigator_state(schedule_state(status, name))


def ticked(tower: Watchtower, state: InstigatorState, status: TickStatus, error: str = "", **fields: Any) -> None:
    cause = SerializableErrorInfo(f"ValueError: {error}\n", [], fields.pop("cls_name", "ValueError"))
    info = SerializableErrorInfo("Error occurred during the execution", [], "SensorExecutionError", cause)
    tower.instance.create_tick(
        TickData(
            state.instigator_origin_id,
            state.name,
            state.instigator_type,
            status,
            fields.pop("timestamp", datetime.now(timezone.utc).timestamp()),
            selector_id=state.selector_id,
            run_ids=[],
            error=info if error else None,
            **fields,
        )
    )


def test_a_table_that_nobody_verified_for_its_limit_is_told_once_a_spell(tower: Watchtower) -> None:
    tower.refresh()
    verified(tower, 7.9)
    assert tower.told() == []
    verified(tower, 8.1)
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]) == "[refresh] datasets is overdue: not verified for 8 d 2 h"
    assert "the schedule weekly_refresh_schedule never ticked: no daemon has run it yet" in caught.text()
    assert "still holds the load of" in caught.text()
    assert tower.told() == []
    tower.refresh()
    assert tower.subjects() == ["[refresh] datasets recovered"]
    assert tower.told() == []
    verified(tower, 9)
    assert len(tower.told()) == 1


def test_a_table_without_its_file_is_verified_as_of_when_the_publisher_was_asked(tower: Watchtower) -> None:
    tower.refresh()
    verified(tower, 0.1, publisher_asked=dg.MetadataValue.timestamp(ago(minutes=8.1 * 24 * 60)))
    (subject,) = tower.subjects()
    assert subject.startswith("[refresh] datasets is overdue: not verified for 8 d 2 h")


def test_that_a_stopped_schedule_is_the_cause_is_told(tower: Watchtower) -> None:
    state = noted(tower, InstigatorStatus.STOPPED)
    ticked(tower, state, TickStatus.SUCCESS, timestamp=datetime(2026, 3, 2, 4, 17, tzinfo=timezone.utc).timestamp())
    verified(tower, 9)
    (caught,) = tower.told()
    stopped = "the schedule weekly_refresh_schedule is stopped (in the UI); its last tick was at 2026-03-02 04:17 UTC"
    assert stopped in caught.text()


def test_that_the_schedules_last_tick_failed_is_told(tower: Watchtower) -> None:
    ticked(tower, noted(tower, InstigatorStatus.DECLARED_IN_CODE), TickStatus.FAILURE, "no such zone")
    verified(tower, 9)
    (caught,) = tower.told()
    assert "and failed: no such zone" in caught.text()


def test_a_table_that_was_never_verified_counts_from_when_it_was_first_seen(tower: Watchtower) -> None:
    assert tower.told() == []
    tower.sql("UPDATE refresh_alerts.spell SET began_at = began_at - interval '9 days' WHERE kind = 'watched'")
    assert sorted(tower.subjects()) == [
        "[refresh] dataset_rights is overdue: not verified for 9 d 0 h",
        "[refresh] datasets is overdue: not verified for 9 d 0 h",
    ]


def test_a_run_that_met_the_lock_verifies_nothing(tower: Watchtower) -> None:
    verified(tower, 9)
    verified(tower, 1, "locked")
    assert len(tower.told()) == 1


def test_a_materialization_that_a_person_reports_verifies_nothing(tower: Watchtower) -> None:
    verified(tower, 9)
    tower.instance.report_runless_asset_event(dg.AssetMaterialization("datasets_table"))
    assert len(tower.told()) == 1


def test_what_failed_and_was_overdue_recovers_in_one_mail(tower: Watchtower) -> None:
    verified(tower, 9)
    tower.fail(tower.create_run())
    assert len(tower.told()) == 2
    tower.refresh()
    assert tower.subjects() == ["[refresh] datasets recovered"]


def test_the_limit_is_a_setting(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_MAX_AGE", "2.5")
    verified(tower, 3)
    assert len(tower.told()) == 1


# Ticks that fail


def test_a_schedule_that_fails_in_three_ticks_is_told_once_and_when_it_works_again(tower: Watchtower) -> None:
    state = noted(tower, InstigatorStatus.DECLARED_IN_CODE, "nightly")
    for number in range(2):
        ticked(tower, state, TickStatus.FAILURE, f"failure {number}")
    assert tower.told() == []
    ticked(tower, state, TickStatus.FAILURE, "failure 2")
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] nightly failed: failure 2"
    ticked(tower, state, TickStatus.FAILURE, "failure 3")
    ticked(tower, state, TickStatus.STARTED)
    assert tower.told() == []
    ticked(tower, state, TickStatus.SKIPPED)
    assert tower.subjects() == ["[refresh] nightly recovered"]
    for number in range(3):
        ticked(tower, state, TickStatus.FAILURE, f"again {number}")
    assert tower.subjects() == ["[refresh] nightly failed: again 2"]


def test_the_ticks_of_a_stopped_schedule_and_those_of_last_month_are_not_told(tower: Watchtower) -> None:
    stopped = noted(tower, InstigatorStatus.STOPPED, "stopped")
    forgotten = noted(tower, InstigatorStatus.DECLARED_IN_CODE, "forgotten")
    for number in range(3):
        ticked(tower, stopped, TickStatus.FAILURE, f"failure {number}")
        ticked(tower, forgotten, TickStatus.FAILURE, "old", timestamp=ago(days=30 - number).timestamp())
    assert tower.told() == []


def test_ticks_of_the_sensor_itself_that_told_why_they_failed_are_not_told_again(tower: Watchtower) -> None:
    state = noted(tower, InstigatorStatus.DECLARED_IN_CODE, "failure_mail")
    for _tick in range(3):
        ticked(tower, state, TickStatus.FAILURE, "told already", cls_name=LookFailedError.__name__)
    assert tower.told() == []

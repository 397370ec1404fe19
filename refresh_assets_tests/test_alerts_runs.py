"""What the failure sensor tells of runs that ended: once each, in the error's words, and when they work again."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG

from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert
from refresh_assets_tests.shop import dataset_rows
from refresh_assets_tests.watchtower import UI, Watchtower

pytestmark = pytest.mark.slow


def test_a_failed_run_is_told_once_in_the_words_of_its_error(tower: Watchtower) -> None:
    tower.refresh()
    tower.break_file()
    run_id = tower.refresh()
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] datasets failed: staged 41 rows; the manifest says 40"
    body = caught.text()
    assert f"Step datasets_csv of job weekly_refresh, run {run_id[:8]}, started by the command line." in body
    assert "still holds the load of" in body
    assert ", 40 rows" in body
    assert "Last success: " in body
    assert "`refresh-assets run --table datasets`" in body
    assert f"{UI}/runs/{run_id}" in body
    assert f"{UI}/assets/datasets_table" in body
    assert tower.told() == []


def test_every_failed_run_is_told(tower: Watchtower) -> None:
    tower.break_file()
    assert tower.refresh() != tower.refresh()
    assert len(tower.told()) == 2


def test_a_refused_shrink_is_told_with_what_to_do(tower: Watchtower) -> None:
    tower.refresh()
    tower.shop.publish(dataset_rows(3))
    tower.refresh()
    (caught,) = tower.told()
    assert "datasets failed: refused to load 3 rows over 40" in str(caught.mail["Subject"])
    assert "--accept-shrink" in caught.text()


def test_of_several_failed_tables_the_one_mail_names_each_with_its_reason(tower: Watchtower) -> None:
    tower.refresh("datasets", "dataset_rights")
    tower.break_file()
    tower.shop.publish_file("dataset_rights.csv", "not,the,header\n", 0)
    tower.refresh("datasets", "dataset_rights")
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]).startswith("[refresh] dataset_rights and datasets failed: ")
    body = caught.text()
    assert "datasets: staged 41 rows; the manifest says 40" in body
    assert "dataset_rights: " in body
    assert "datasets still holds the load of" in body
    assert "dataset_rights still holds the load of" in body


def test_where_no_table_could_be_refreshed_the_job_is_what_failed(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEARN_BASE", "file:///nowhere")
    tower.refresh("datasets", "dataset_rights")
    (subject,) = tower.subjects()
    assert subject.startswith("[refresh] weekly_refresh failed: /nowhere/learn/data/manifest.json does not exist")


def test_a_run_that_ended_without_a_failed_step_is_told_with_what_was_reported(tower: Watchtower) -> None:
    tower.fail(tower.create_run(), "Run worker exited with signal 9")
    (subject,) = tower.subjects()
    assert subject == "[refresh] datasets failed: Run worker exited with signal 9"


def test_runs_of_other_jobs_without_an_origin_are_told_as_well(tower: Watchtower) -> None:
    @dg.op
    def divide() -> None:
        raise ZeroDivisionError("no remainder\nfor you")

    @dg.job
    def elsewhere() -> None:
        divide()

    result = elsewhere.execute_in_process(instance=tower.instance, raise_on_error=False)
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] elsewhere failed: no remainder"
    assert f"Step divide of job elsewhere, run {result.run_id[:8]}, started by the command line." in caught.text()
    assert "for you" in caught.text()


def test_a_failed_check_of_severity_error_in_a_successful_run_is_told(tower: Watchtower) -> None:
    tower.refresh()
    tower.shop.admin.execute("UPDATE etl.datasets SET title = 'Odd' WHERE title = 'Dataset 1'")
    tower.refresh()
    (caught,) = tower.told()
    subject = str(caught.mail["Subject"])
    assert subject.startswith("[refresh] datasets failed a check: drift: etl.datasets: rows were changed")
    assert tower.told() == []


def test_a_warning_of_a_check_is_not_told(tower: Watchtower) -> None:
    tower.refresh()
    tower.shop.publish(dataset_rows(41))
    with tower.lock_held():
        tower.refresh()
    assert tower.told() == []


def test_a_success_after_a_told_failure_is_told_once(tower: Watchtower) -> None:
    tower.break_file()
    tower.refresh()
    tower.look()
    tower.mend_file()
    tower.refresh()
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] datasets recovered"
    assert "State:        holds the load of" in caught.text()
    tower.refresh()
    assert tower.told() == []


def test_a_failure_and_a_success_between_two_looks_are_both_told(tower: Watchtower) -> None:
    tower.break_file()
    tower.refresh()
    tower.mend_file()
    tower.refresh()
    assert tower.subjects() == [
        "[refresh] datasets failed: staged 41 rows; the manifest says 40",
        "[refresh] datasets recovered",
    ]


def test_another_tables_success_is_no_recovery(tower: Watchtower) -> None:
    tower.break_file()
    tower.refresh()
    tower.look()
    tower.refresh("dataset_rights")
    assert tower.told() == []


def test_a_run_that_met_the_lock_is_no_recovery(tower: Watchtower) -> None:
    tower.refresh()
    tower.fail(tower.create_run())
    tower.look()
    with tower.lock_held():
        tower.refresh()
    assert tower.told() == []
    tower.refresh()
    assert tower.subjects() == ["[refresh] datasets recovered"]


def test_the_mail_says_since_when_it_fails(tower: Watchtower) -> None:
    tower.fail(tower.create_run())
    tower.look()
    tower.sql("UPDATE refresh_alerts.spell SET began_at = '2026-03-02 04:17+00' WHERE kind = 'failing'")
    tower.fail(tower.create_run())
    (caught,) = tower.told()
    assert "Since:        2026-03-02 04:17 UTC" in caught.text()


# Automatic retries


def test_a_failure_that_is_tried_again_is_not_told_but_the_last_one_is(tower: Watchtower) -> None:
    first, last = (tower.create_run(tags={"dagster/retry_number": number}) for number in "01")
    tower.fail(first)
    tower.instance.add_run_tags(first.run_id, {WILL_RETRY_TAG: "true", AUTO_RETRY_RUN_ID_TAG: last.run_id})
    assert tower.told() == []
    tower.fail(last)
    tower.instance.add_run_tags(last.run_id, {WILL_RETRY_TAG: "false"})
    (caught,) = tower.told()
    assert "after 1 automatic retry" in caught.text()


def test_a_retry_that_does_not_come_is_told(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.fail(run)
    tower.instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "true"})
    assert tower.told() == []
    tower.sql("UPDATE refresh_alerts.seen_run SET seen_at = seen_at - interval '11 minutes'")
    assert len(tower.told()) == 1
    assert tower.told() == []


def test_a_retry_that_dagster_gave_up_is_told_at_once(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.fail(run)
    tower.instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "true"})
    tower.look()
    tower.instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "false"})
    assert len(tower.told()) == 1


@pytest.fixture
def retrying(tower: Watchtower) -> Iterator[Watchtower]:
    """Let Dagster retry runs; those that fail before the first look fail in a process that dies before it says so."""
    configuration = Path(os.environ["DAGSTER_HOME"]) / "dagster.yaml"
    configuration.write_text(configuration.read_text() + "\nrun_retries: {enabled: true}\n")
    with dg.DagsterInstance.get() as instance:
        assert instance.run_retries_enabled
        yield replace(tower, instance=instance)


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(seconds=5), timedelta(hours=3), timedelta(hours=-3)])
def test_a_failure_is_not_told_before_dagster_says_whether_it_tries_again(
    tower: Watchtower, retrying: Watchtower, ahead: timedelta
) -> None:
    run = tower.create_run()
    tower.fail(run)
    tower.dated(run, -ahead)
    assert retrying.told() == []
    retrying.instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "true", AUTO_RETRY_RUN_ID_TAG: "another"})
    assert retrying.told() == []


@pytest.mark.parametrize("age", [timedelta(), timedelta(hours=2), timedelta(hours=23)])
@pytest.mark.parametrize("looks_before", [0, 1])
def test_a_failure_of_which_dagster_never_says_whether_it_tries_again_is_told(
    tower: Watchtower, retrying: Watchtower, age: timedelta, looks_before: int
) -> None:
    for _ in range(looks_before):
        retrying.look()
    run = tower.create_run()
    tower.fail(run)
    tower.dated(run, age)
    # By this one the look comes far behind the first.
    tower.refresh("dataset_rights")
    assert retrying.told() == []
    tower.sql("UPDATE refresh_alerts.seen_run SET seen_at = seen_at - interval '11 seconds'")
    assert len(retrying.told()) == 1
    assert retrying.told() == []
    assert tower.sql("SELECT count(*) FROM refresh_alerts.seen_run WHERE state = 'may be retried'") == [(0,)]


# Cancelled runs


def test_what_a_person_cancels_is_not_told(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.instance.report_run_canceling(run)
    tower.instance.report_run_canceled(run)
    assert tower.told() == []


def test_what_was_cancelled_for_its_length_is_told(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.instance.report_run_canceling(run, message="Canceling due to exceeding maximum runtime of 5 seconds.")
    tower.instance.report_run_canceled(run)
    (subject,) = tower.subjects()
    assert subject == "[refresh] datasets failed: Canceling due to exceeding maximum runtime of 5 seconds."


# What is looked at


def test_the_first_look_goes_back_a_day_and_not_further(tower: Watchtower) -> None:
    old, recent = tower.create_run(), tower.create_run()
    tower.fail(old, "old")
    tower.fail(recent, "recent")
    tower.dated(old, timedelta(hours=25))
    tower.dated(recent, timedelta(hours=23))
    assert tower.subjects() == ["[refresh] datasets failed: recent"]


def test_nothing_is_lost_while_the_sensor_is_off_for_days(tower: Watchtower) -> None:
    tower.fail(tower.create_run())
    tower.look()
    tower.sql("UPDATE refresh_alerts.noted SET instant = instant - interval '9 days'")
    run = tower.create_run()
    tower.fail(run, "eight days ago")
    tower.dated(run, timedelta(days=8))
    assert tower.subjects() == ["[refresh] datasets failed: eight days ago"]


def test_a_row_that_is_committed_late_is_told(tower: Watchtower) -> None:
    late = tower.create_run()
    tower.fail(tower.create_run())
    tower.look()
    tower.fail(late, "late")
    tower.dated(late, timedelta(minutes=20))
    assert tower.subjects() == ["[refresh] datasets failed: late"]


def test_a_host_whose_clock_is_fast_hides_nobodys_failure(tower: Watchtower) -> None:
    ahead = tower.create_run()
    tower.fail(ahead)
    tower.dated(ahead, timedelta(hours=-5))
    assert len(tower.told()) == 1
    tower.fail(tower.create_run())
    assert len(tower.told()) == 1


def test_a_tag_that_is_added_to_a_told_run_tells_nothing_again(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.fail(run)
    tower.look()
    tower.instance.add_run_tags(run.run_id, {"note": "seen"})
    assert tower.told() == []


def test_a_tag_that_is_added_to_an_old_run_tells_nothing(tower: Watchtower) -> None:
    run = tower.create_run()
    tower.fail(run)
    tower.dated(run, timedelta(days=60))
    tower.look()
    tower.instance.add_run_tags(run.run_id, {"note": "seen"})
    assert tower.told() == []


def test_a_thousand_failures_at_once_are_told_within_some_looks_each_well_within_its_time(tower: Watchtower) -> None:
    tower.break_file()
    failed = tower.instance.get_run_by_id(tower.refresh())
    assert failed is not None
    tower.copy(failed, 999)
    seconds: list[float] = []
    while len(tower.mailserver.mails) < 1000:
        began = time.monotonic()
        tower.look()
        seconds.append(time.monotonic() - began)
        assert len(seconds) < 6
    assert max(seconds) < 40
    assert len(set(tower.mailserver.ids)) == 1000


# Failure domains


def test_a_password_that_an_error_echoes_reaches_neither_mail_nor_tick_nor_log(
    tower: Watchtower, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tower.shop.env["PGPASSWORD"]
    tower.fail(tower.create_run(), f"no connection with password={secret}")
    (caught,) = tower.told()
    assert secret.encode() not in caught.content

    def leaking(_look: Look) -> Iterator[Alert]:
        raise RuntimeError(f"no connection with password={secret}")
        yield

    with pytest.raises(LookFailedError) as raised:
        tower.look([leaking])
    assert secret not in str(raised.value)
    assert "RuntimeError: no connection with password=***" in caplog.text
    assert secret not in caplog.text


def test_the_job_of_a_run_need_not_exist_any_more(tower: Watchtower) -> None:
    run = dg.DagsterRun(job_name="long_gone", run_id=str(uuid.uuid4()))
    tower.instance.add_run(run)
    tower.fail(run, "its code is gone")
    assert tower.subjects() == ["[refresh] long_gone failed: its code is gone"]

"""The promises of docs/alerts.md, each kept by real processes: what happens, and within which time a mail arrives."""

from __future__ import annotations

import re

import psutil
import pytest
from dagster._core.scheduler.instigation import InstigatorStatus, InstigatorType

from refresh_assets.requests import client
from refresh_assets.requests.storage import connect_requests
from refresh_assets_tests.night_watch import NightWatch, kill_process
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, dataset_rows, rights_rows

pytestmark = pytest.mark.slow
MINUTE = 60.0


def test_a_step_that_raises(night: NightWatch) -> None:
    night.shop.publish(dataset_rows(41), promised=40)
    run_id = night.enqueue("refresh_assets", "weekly_refresh")
    night.failed(run_id)
    night.shop.publish(dataset_rows(40))
    caught = night.mail("datasets failed: staged 41 rows; the manifest says 40", MINUTE)
    assert f"/runs/{run_id}" in caught.text()
    assert "still holds the load of" in caught.text()
    night.refresh("datasets")
    night.mail("datasets recovered", MINUTE)


def test_a_publisher_that_cannot_be_reached(night: NightWatch) -> None:
    night.refresh("dataset_rights", LEARN_BASE="http://127.0.0.1:9")
    night.mail("127.0.0.1:9", MINUTE)


def test_a_run_that_dagster_tries_again(night: NightWatch) -> None:
    caught = night.mail("flaky failed: no remainder", 2 * MINUTE)
    assert "after 1 automatic retry" in caught.text()


def test_a_failed_check_in_a_run_that_succeeded(night: NightWatch) -> None:
    night.shop.admin.execute("UPDATE etl.datasets SET title = 'Odd' WHERE title = 'Dataset 1'")
    assert "loaded 40 rows" in night.refresh("datasets")
    night.mail("datasets failed a check: drift", MINUTE)


def test_a_refused_shrink(night: NightWatch) -> None:
    night.shop.publish_file("dataset_rights.csv", csv_text(rights_rows(1), RIGHTS_HEADER), 1)
    night.refresh("dataset_rights")
    caught = night.mail("dataset_rights failed: refused to load 1 rows over 5", MINUTE)
    assert "--accept-shrink" in caught.text()
    night.shop.publish_file("dataset_rights.csv", csv_text(rights_rows(5), RIGHTS_HEADER), 5)


def test_a_request_that_has_used_up_its_attempts(night: NightWatch) -> None:
    mails = len(night.mails)
    with connect_requests(night.env) as conn, conn.transaction():
        client.schedule_if_not_exists(conn, "nightly", data={"tables": ["datasets"], "sha256": "0" * 64})
        # All but the last one are over already.
        conn.execute("UPDATE refresh_requests.scheduled_tasks SET consecutive_failures = 3")
    over = "SELECT FROM refresh_requests.request_outcomes WHERE task_instance = 'nightly'"
    night.wait(lambda: night.shop.rows(over), 4 * 60)
    caught = night.mail("request nightly failed for good: ", MINUTE)
    assert "the last of its 4 attempts" in caught.text()
    assert re.search(r"/runs/\S+", caught.text())
    night.quiet()
    assert [x.mail["Subject"] for x in night.mails[mails:] if "nightly" in x.text() or "000000" in x.text()] == [
        caught.mail["Subject"]
    ]


def test_a_run_whose_process_is_killed(night: NightWatch) -> None:
    kill_process(night.pid_of(night.doomed))
    night.mail("endless failed", 2 * MINUTE, f"/runs/{night.doomed}")


def test_a_run_of_the_command_line_whose_process_is_killed(night: NightWatch) -> None:
    night.shop.admin.execute(
        "CREATE FUNCTION etl.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$"
    )
    night.shop.admin.execute(
        "CREATE TRIGGER slow BEFORE UPDATE ON etl.datasets FOR EACH ROW EXECUTE FUNCTION etl.slow()"
    )
    rows = dataset_rows(40)
    night.shop.publish([(rows[0][0], "A corrected title", *rows[0][2:]), *rows[1:]])
    process = night.shop.start("run", "--table", "datasets", **night.env)
    sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    night.wait(lambda: night.shop.rows(sleeping))
    process.kill()
    process.communicate(timeout=60)
    caught = night.mail(f"datasets failed: The process of this run is gone: pid {process.pid}", 2 * MINUTE)
    assert "started by the command line" in caught.text()
    night.shop.rows(f"SELECT pg_terminate_backend(pid, 5000) FROM ({sleeping}) AS asleep")
    night.shop.admin.execute("DROP FUNCTION etl.slow CASCADE")
    night.shop.publish(rows)


def test_a_run_that_hangs_over_its_maximum_run_time(night: NightWatch) -> None:
    caught = night.mail("endless failed", 3 + 2 * MINUTE, f"/runs/{night.hanging}")
    assert "maximum runtime of 3 seconds" in caught.text()


def test_a_run_that_is_stuck_in_the_queue(night: NightWatch) -> None:
    night.mail(f"endless is stuck: run {night.stuck[:8]} is QUEUED", 2 * MINUTE)


def test_a_sensor_that_fails_in_three_ticks_running(night: NightWatch) -> None:
    night.mail("odd_feed failed: the feed is not JSON", 5 * MINUTE)


def test_a_table_that_is_not_verified_for_too_long_because_its_schedule_was_stopped(night: NightWatch) -> None:
    states = night.wait(lambda: night.instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE))
    night.instance.update_instigator_state(states[0].with_status(InstigatorStatus.STOPPED))
    night.shop.admin.execute(
        "UPDATE dagster.event_logs SET event = regexp_replace(event, '\"timestamp\": ([0-9.]+)', "
        "'\"timestamp\": ' || (extract(epoch FROM clock_timestamp()) - 9 * 86400)::text) "
        "WHERE dagster_event_type = 'ASSET_MATERIALIZATION' AND asset_key = '[\"datasets_table\"]'"
    )
    caught = night.mail("datasets is overdue", 10 * MINUTE)
    assert "the schedule weekly_refresh_schedule is stopped (in the UI)" in caught.text()


def test_a_run_whose_process_and_code_server_are_killed(night: NightWatch) -> None:
    pid = night.pid_of(night.orphan)
    server = psutil.Process(pid).parent()
    assert server is not None
    server.kill()
    kill_process(pid)
    caught = night.mail("endless failed", 5 * MINUTE, f"/runs/{night.orphan}")
    assert f"The process of this run is gone: pid {pid}" in caught.text()


@pytest.fixture(scope="module")
def reboot(night: NightWatch) -> str:
    """Let the host go down in the middle of a run while the mail server is away, and come back; return the run."""
    owed = "SELECT count(*) FROM refresh_alerts.alert_outbox WHERE sent_at IS NULL AND about = 'datasets' AND attempts"
    due = "UPDATE refresh_alerts.alert_outbox SET next_attempt_at = clock_timestamp()"
    night.stop_mail()
    run_id = night.enqueue("elsewhere", "endless")
    night.refresh("datasets", LEARN_BASE="file:///nowhere")
    night.wait(lambda: night.shop.rows(f"{owed} > 0") == [(1,)])
    night.pid_of(run_id)
    night.kill()
    night.start()
    # The hours in which it is tried again and again.
    night.shop.admin.execute(due)
    night.wait(lambda: night.shop.rows(f"{owed} > 1") == [(1,)])
    night.serve_mail()
    night.shop.admin.execute(due)
    return run_id


def test_a_mail_server_that_is_down_for_hours_while_the_daemon_is_restarted(night: NightWatch, reboot: str) -> None:
    # Within the 5 min in which a mail server that is back is noticed.
    night.mail("/nowhere/learn/data/manifest.json does not exist", 4 * MINUTE)


def test_a_host_that_goes_down_in_the_middle_of_a_run(night: NightWatch, reboot: str) -> None:
    night.mail("endless failed", 5 * MINUTE, f"/runs/{reboot}")


def test_nothing_was_told_twice(night: NightWatch) -> None:
    night.quiet()
    ids = [caught.mail["Message-ID"] for caught in night.mails]
    assert len(set(ids)) == len(ids)
    runs = [
        re.findall(r"/runs/(\S+)", caught.text())[0]
        for caught in night.mails
        if "failed:" in caught.mail["Subject"] and "/runs/" in caught.text()
    ]
    assert len(set(runs)) == len(runs)
    assert night.shop.rows("SELECT count(*) FROM refresh_alerts.alert_outbox WHERE sent_at IS NULL") == [(0,)]

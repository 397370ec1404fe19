"""The sensor `requests` and the runs that it asks for, look by look in this process."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from refresh_assets.alerts.owner import SETTLED_TAG
from refresh_assets.cli import main
from refresh_assets.postgres.connect import Connection
from refresh_assets.requests import client, ended
from refresh_assets.requests.claim import InWork, claim, in_work
from refresh_assets.requests.sensors import IN_WORK
from refresh_assets.requests.settle import MOST_FAILED, park
from refresh_assets.requests.storage import connect_requests
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.requests_clerk import ONE, Clerk
from refresh_assets_tests.requests_fixtures import TASKS
from refresh_assets_tests.shop import HEADER, dataset_rows

pytestmark = pytest.mark.slow

# Runs that are executed


def test_a_request_for_a_table_refreshes_it_and_is_done(clerk: Clerk) -> None:
    clerk.ask("tonight", ONE, priority=7)
    request, run = clerk.one()
    assert request.tags["dagster/priority"] == "7"
    assert clerk.execute(run) == "SUCCESS"
    assert clerk.look() == []
    found = clerk.get("tonight")
    assert (found.state, found.run_id) == ("done", run.run_id)
    assert len(clerk.tower.shop.rows()) == 40
    assert client.list(clerk.conn) == []
    settled = clerk.tower.instance.get_run_by_id(run.run_id)
    assert settled is not None
    assert settled.tags[SETTLED_TAG] == "SUCCESS"


def test_a_request_has_the_options_of_the_launchpad(clerk: Clerk) -> None:
    earlier = hashlib.sha256(csv_text(dataset_rows(40), HEADER).encode()).hexdigest()
    clerk.ask("first")
    clerk.run()
    clerk.tower.shop.publish(dataset_rows(30, free=3))
    clerk.ask("free", {"tables": ["datasets"], "allowed": ["CC0 1.0"], "accept_shrink": True})
    assert clerk.run() == ["SUCCESS"]
    assert len(clerk.tower.shop.rows()) == 3
    clerk.ask("earlier", {"tables": {"datasets": {"sha256": earlier}}})
    assert clerk.run() == ["SUCCESS"]
    assert len(clerk.tower.shop.rows()) == 40


def test_of_two_runs_for_one_request_the_second_does_nothing_and_nobody_is_told(clerk: Clerk) -> None:
    clerk.ask("tonight")
    request, first = clerk.one()
    second = clerk.create(request)
    assert clerk.execute(first) == "SUCCESS"
    clerk.tower.shop.publish(dataset_rows(41))
    assert clerk.execute(second) == "FAILURE"
    assert clerk.loads() == 1
    clerk.look()
    assert (clerk.get("tonight").state, clerk.get("tonight").run_id) == ("done", first.run_id)
    assert clerk.told() == []


def test_a_run_that_failed_ends_no_request_that_another_run_took_meanwhile(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clerk.ask("tonight")
    request, loser = clerk.one()
    winner = clerk.create(request)
    clerk.set_status(loser, "FAILURE")

    def then_the_other_begins(conn: Connection, *, schema: str | None = None) -> Sequence[InWork]:
        found = in_work(conn, schema=schema)
        clerk.begin(winner)
        return found

    monkeypatch.setattr(ended, "in_work", then_the_other_begins)
    clerk.look()
    found = clerk.get("tonight")
    assert (found.state, found.run_id, found.failures) == ("running", winner.run_id, 0)


def test_a_request_is_fenced_in_the_very_transaction_that_writes(clerk: Clerk) -> None:
    admin = clerk.tower.shop.admin
    clerk.ask("tonight")
    _request, run = clerk.one()
    # The request is taken away when the file is staged already.
    admin.execute(
        "CREATE SCHEMA etl CREATE TABLE datasets (dataset_key uuid PRIMARY KEY, title text NOT NULL, "
        "publisher text NOT NULL, doi text, license text NOT NULL)"
    )
    admin.execute(
        "CREATE FUNCTION etl.away() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN UPDATE {TASKS} SET picked_by = 'somebody else'; RETURN NULL; END $$"
    )
    admin.execute("CREATE TRIGGER away AFTER INSERT ON etl.datasets EXECUTE FUNCTION etl.away()")
    assert clerk.execute(run) == "FAILURE"
    assert clerk.tower.shop.rows() == []
    assert clerk.loads() == 0


def test_a_run_that_met_another_refresh_is_repeated_and_no_attempt_was_used(clerk: Clerk) -> None:
    clerk.ask("tonight")
    with clerk.tower.lock_held():
        assert clerk.run() == ["SUCCESS"]
    clerk.look()
    found = clerk.get("tonight")
    assert (found.state, found.failures) == ("waiting", 0)
    assert "held the lock" in str(found.error)


def test_of_several_tables_only_those_that_failed_are_tried_again(clerk: Clerk) -> None:
    clerk.tower.break_file()
    clerk.ask("both", {"tables": ["datasets", "dataset_rights"]})
    assert clerk.run() == ["FAILURE"]
    clerk.look()
    assert "staged 41 rows; the manifest says 40" in str(clerk.get("both").error)
    clerk.due_now()
    (request,) = clerk.look()
    names = {key.to_user_string() for key in request.asset_selection or ()}
    assert names == {"manifest", "datasets_csv", "datasets_table"}


def test_a_run_renews_the_heartbeat_of_its_request(clerk: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_HEARTBEAT", "0.1")
    clerk.ask("tonight")
    _request, run = clerk.one()
    beats = set()
    executing = threading.Thread(target=clerk.execute, args=[run])
    executing.start()
    while executing.is_alive():
        beats.add(clerk.get("tonight").at)
        executing.join(0.05)
    assert len(beats) > 3


# Runs that are only recorded


def test_a_request_that_names_no_table_is_for_all(clerk: Clerk) -> None:
    clerk.ask("all", None)
    (request,) = clerk.look()
    assert {key.to_user_string() for key in request.asset_selection or ()} == {
        "manifest",
        *(f"{table}_{part}" for table in ("datasets", "dataset_rights") for part in ("csv", "table")),
    }


@pytest.mark.parametrize("raw", [b'{"tables": ["nowhere"]}', b"{", b"\xff", b'{"tables": ["datasets"], "until": 1}'])
def test_a_bad_request_is_parked_with_its_error_and_the_next_one_runs(clerk: Clerk, raw: bytes) -> None:
    clerk.conn.execute(
        f"INSERT INTO {TASKS} (task_name, task_instance, task_data, execution_time, priority) "
        "VALUES ('refresh', 'bad', %s, now() - interval '1 day', 9)",
        [raw],
    )
    clerk.ask("good")
    runs = [request.tags["refresh/request"] for _round in range(3) for request in clerk.look()]
    assert runs == ["good"]
    assert [(found.state, bool(found.error)) for found in client.history(clerk.conn, "bad")] == [("failed", True)]
    assert {found.instance: found.state for found in client.list(clerk.conn)}["bad"] == "failed"


def test_a_request_for_windows_where_there_are_none_says_which_setting_is_missing(clerk: Clerk) -> None:
    clerk.ask("march", {"since": "2026-03-01T00:00+00:00", "until": "2026-03-02T00:00+00:00"})
    assert clerk.look() == []
    assert "WINDOW_SOURCE is not set" in str(clerk.get("march").error)


def test_a_claim_whose_look_was_killed_before_its_run_was_created_is_given_one_later(clerk: Clerk) -> None:
    clerk.ask("tonight")
    (lost,) = clerk.look()
    assert clerk.look() == []
    clerk.later()
    again, run = clerk.one()
    assert again.run_key == lost.run_key
    clerk.write(run)
    clerk.set_status(run, "SUCCESS")
    clerk.look()
    assert clerk.get("tonight").state == "done"


def test_a_run_that_was_created_and_not_submitted_is_asked_for_again_and_one_in_the_queue_is_not(clerk: Clerk) -> None:
    clerk.ask("tonight")
    request, run = clerk.one()
    clerk.later()
    (again,) = clerk.look()
    assert again.run_key == request.run_key
    clerk.set_status(run, "QUEUED")
    clerk.later()
    assert clerk.look() == []
    assert clerk.get("tonight").run_id == run.run_id


def test_a_run_whose_request_was_given_to_another_attempt_changes_nothing(clerk: Clerk) -> None:
    clerk.ask("tonight")
    request, zombie = clerk.one()
    clerk.conn.execute("UPDATE refresh_requests.request_claims SET run_id = 'deleted by a person'")
    clerk.look()
    clerk.due_now()
    (fresh,) = clerk.look()
    assert fresh.run_key != request.run_key
    assert clerk.execute(zombie) == "FAILURE"
    assert clerk.tower.shop.rows("SELECT to_regclass('etl.datasets')") == [(None,)]


def test_a_failed_run_is_tried_again_and_no_mail_is_sent_before_the_last_attempt(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFRESH_REQUEST_ATTEMPTS", "3")
    clerk.ask("tonight")
    for attempt in (1, 2):
        _request, run = clerk.one()
        clerk.tower.fail(run, "the disk is full")
        assert clerk.look() == []
        found = clerk.get("tonight")
        assert (found.state, found.failures, found.error) == ("waiting", attempt, "the disk is full")
        assert clerk.told() == []
        clerk.due_now()
    _request, run = clerk.one()
    clerk.tower.fail(run, "the disk is full")
    clerk.look()
    (caught,) = clerk.told()
    assert caught.mail["Subject"] == "[refresh] request tonight failed for good: the disk is full"
    assert "the last of its 3 attempts" in caught.text()
    assert "refresh-assets request move tonight" in caught.text()
    assert f"/runs/{run.run_id}" in caught.text()
    clerk.look()
    assert clerk.told() == []


def test_where_nobody_takes_note_of_a_failed_run_it_is_told_as_any_other(clerk: Clerk) -> None:
    clerk.ask("tonight")
    _request, run = clerk.one()
    clerk.tower.fail(run, "the disk is full")
    assert clerk.told() == []
    clerk.tower.sql("UPDATE refresh_alerts.seen_run SET seen_at = seen_at - interval '11 minutes'")
    (caught,) = clerk.told()
    assert "started by the request tonight" in caught.text()


def test_a_run_that_is_killed_is_ended_and_its_request_tried_again(clerk: Clerk) -> None:
    clerk.ask("tonight")
    _request, run = clerk.one()
    clerk.begin(run)
    clerk.later()
    clerk.look()
    assert clerk.status(run) == "STARTED", "one look is not enough"
    clerk.later()
    clerk.look()
    assert clerk.status(run) == "FAILURE"
    found = clerk.get("tonight")
    assert (found.state, found.failures) == ("waiting", 1)
    assert "The process of this run is gone" in str(found.error)
    assert clerk.told() == []


def test_a_run_that_wrote_everything_and_was_killed_then_is_not_run_again(clerk: Clerk) -> None:
    clerk.ask("tonight")
    _request, run = clerk.one()
    clerk.begin(run)
    clerk.write(run)
    clerk.tower.fail(run, "killed")
    assert clerk.look() == []
    clerk.due_now()
    assert clerk.look() == []
    assert clerk.get("tonight").state == "done"


def test_a_run_that_a_person_cancels_ends_its_request_without_a_mail(clerk: Clerk) -> None:
    clerk.ask("tonight")
    _request, run = clerk.one()
    clerk.tower.instance.report_run_canceled(run)
    clerk.look()
    assert clerk.get("tonight").state == "cancelled"
    assert clerk.told() == []


def test_only_so_many_are_in_work_at_once_so_that_the_rest_can_still_be_moved(clerk: Clerk) -> None:
    for n in range(IN_WORK + 15):
        clerk.ask(f"r{n}")
    assert [len(clerk.look()) for _look in range(3)] == [10, IN_WORK - 10, 0]
    client.cancel(clerk.conn, f"r{IN_WORK + 14}")


def test_a_request_whose_run_cannot_be_read_holds_up_no_other(clerk: Clerk) -> None:
    clerk.ask("odd")
    _request, run = clerk.one()
    clerk.begin(run)
    clerk.tower.shop.admin.execute("UPDATE dagster.runs SET run_body = '{' WHERE run_id = %s", [run.run_id])
    clerk.ask("good")
    assert [request.tags["refresh/request"] for request in clerk.look()] == ["good"]
    with pytest.raises(Exception, match="request 'odd': its run could not be read"):
        clerk.look()


def test_what_an_unreadable_run_echoes_is_logged_without_a_password(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clerk.ask("odd")
    _request, run = clerk.one()
    clerk.begin(run)

    def unreadable(_instance: object, _run_id: str) -> None:
        raise RuntimeError(f"no run behind {os.environ['PGPASSWORD']}")

    monkeypatch.setattr(type(clerk.tower.instance), "get_run_by_id", unreadable)
    with pytest.raises(Exception, match="its run could not be read"):
        clerk.look()
    assert "RuntimeError: no run behind ***" in caplog.text
    assert os.environ["PGPASSWORD"] not in caplog.text


def test_requests_that_failed_while_nobody_looked_are_all_told_and_each_once(clerk: Clerk) -> None:
    def fail(*names: str) -> None:
        for name in names:
            client.schedule_if_not_exists(clerk.conn, name)
        with connect_requests() as own:
            for found in claim(own, len(names)):
                park(own, found.token, "no such table")

    def told() -> int:
        clerk.told()
        return int(clerk.tower.sql("SELECT count(*) FROM refresh_alerts.alert_outbox WHERE kind = 'request'")[0][0])

    assert told() == 0
    names = [f"request {n}" for n in range(MOST_FAILED + 1)]
    fail(*names)
    # It was off for half a year.
    clerk.tower.sql("UPDATE refresh_alerts.noted SET instant = instant - interval '200 days'")
    outcomes = "UPDATE refresh_requests.request_outcomes SET ended_at = ended_at - interval"
    clerk.conn.execute(f"{outcomes} '150 days'")
    assert (told(), told()) == (len(names), len(names))
    # The tables are made anew, and their numbers begin again.
    clerk.conn.execute("TRUNCATE refresh_requests.request_outcomes RESTART IDENTITY")
    fail("one more")
    assert (told(), told()) == (len(names) + 1, len(names) + 1)
    # What was told long ago is not told again when its mail is forgotten.
    clerk.conn.execute(f"{outcomes} '100 days'")
    clerk.tower.sql("TRUNCATE refresh_alerts.alert_outbox")
    assert told() == 0


def test_status_tells_of_requests_and_is_not_satisfied_while_one_has_failed(clerk: Clerk) -> None:
    clerk.ask("bad", {"tables": ["nowhere"]})
    clerk.look()
    clerk.ask("good")
    done = CliRunner().invoke(main, ["status"])
    assert done.exit_code == 1
    assert "FAILED requests: 1 waiting (1 due), 0 running, 1 failed for good\n" in done.output
    found = json.loads(CliRunner().invoke(main, ["status", "--json"]).output)
    assert found["requests"]["failed"] == 1
    assert "1 request(s) failed for good; move or cancel each" in found["wrong"]

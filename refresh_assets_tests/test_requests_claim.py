"""Claims, attempts and ends of requests, without Dagster and without waiting: the clock is given."""

from __future__ import annotations

import threading
from collections import Counter as Multiset
from datetime import timedelta

import pytest

from refresh_assets.requests import client
from refresh_assets.requests.claim import Claim, beat, bind, claim, held, in_work, plan
from refresh_assets.requests.fence import RequestLostError
from refresh_assets.requests.settings import RequestSettings
from refresh_assets.requests.settle import call_off, complete, fail, park, postpone, prune, stale
from refresh_assets.requests.standing import requests_status, standing
from refresh_assets.requests.storage import connect_requests
from refresh_assets_tests.requests_fixtures import NOON, TASKS, Counter
from refresh_assets_tests.waiting import wait_until

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
SILENT, LOOK = timedelta(seconds=60), timedelta(seconds=20)


def test_what_is_due_is_claimed_and_what_is_not_yet_due_is_left(counter: Counter) -> None:
    counter.ask("due", when=NOON)
    counter.ask("not yet", when=NOON + SECOND)
    assert counter.names(NOON) == ["due"]
    assert counter.names(NOON) == []
    assert counter.names(NOON + SECOND) == ["not yet"]


def test_claims_go_by_priority_those_without_one_last_then_by_their_instants(counter: Counter) -> None:
    counter.ask("none, early", when=NOON - HOUR)
    counter.ask("none, late", when=NOON)
    counter.ask("low", when=NOON - HOUR, priority=-5)
    counter.ask("high, late", when=NOON, priority=9)
    counter.ask("high, early", when=NOON - HOUR, priority=9)
    assert counter.names() == ["high, early", "high, late", "low", "none, early", "none, late"]


def test_no_more_are_claimed_than_wanted(counter: Counter) -> None:
    counter.ask("a", "b", "c")
    assert counter.names(limit=2) == ["a", "b"]
    assert counter.names(limit=2) == ["c"]


def test_of_two_pollers_at_once_each_request_goes_to_one(counter: Counter) -> None:
    counter.ask(*(f"r{n}" for n in range(60)))
    found: list[list[Claim]] = [[], []]

    def poll(mine: list[Claim]) -> None:
        with connect_requests(counter.env) as conn:
            while claims := claim(conn, 3, now=NOON):
                mine.extend(claims)

    pollers = [threading.Thread(target=poll, args=[mine]) for mine in found]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join(60)
    claims = [*found[0], *found[1]]
    assert Multiset(claim.instance for claim in claims) == Multiset({f"r{n}": 1 for n in range(60)})
    assert len({claim.token for claim in claims}) == 60
    for one in claims:
        bind(counter.own, one.token, one.instance, started=True)
        assert complete(counter.own, one.token, now=NOON)
    assert counter.sql(f"SELECT count(*) FROM {TASKS}") == [(0,)]
    assert all([x.state for x in client.history(counter.conn, f"r{n}")] == ["done"] for n in range(60))


def test_a_row_that_another_session_holds_is_passed_over(counter: Counter) -> None:
    counter.ask("held", "free")
    with counter.conn.transaction():
        counter.conn.execute(f"SELECT FROM {TASKS} WHERE task_instance = 'held' FOR UPDATE")
        assert counter.names() == ["free"]
    assert counter.names() == ["held"]


def test_rows_of_other_task_names_are_left_alone_and_told(counter: Counter) -> None:
    counter.sql(f"INSERT INTO {TASKS} (task_name, task_instance, execution_time) VALUES ('billing', '1', %s)", NOON)
    before = counter.sql(f"SELECT xmin::text, * FROM {TASKS}")
    assert counter.names() == []
    prune(counter.own)
    assert counter.sql(f"SELECT xmin::text, * FROM {TASKS}") == before
    assert standing(counter.own, "refresh_requests", "UTC").others == 1


# Ends


def test_a_request_that_is_done_leaves_the_table_and_stays_in_the_history_with_its_run(counter: Counter) -> None:
    counter.ask("tonight", data={"tables": ["datasets"]})
    found = counter.start("tonight")
    counter.write(found)
    assert complete(counter.own, found.token, now=NOON + HOUR)
    assert counter.sql(f"SELECT count(*) FROM {TASKS}") == [(0,)]
    ended = counter.get("tonight")
    assert (ended.state, ended.run_id, ended.at, ended.data) == ("done", "run 1", NOON + HOUR, {"tables": ["datasets"]})


def test_a_request_of_which_a_part_is_not_written_is_not_done(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight", parts=["datasets", "dataset_rights"])
    counter.write(found, part="datasets")
    assert not complete(counter.own, found.token)
    assert counter.get("tonight").state == "running"


def test_a_name_can_be_used_again_and_the_new_request_is_run_anew(counter: Counter) -> None:
    tokens = set()
    for _time in range(3):
        counter.ask("nightly")
        found = counter.start("nightly")
        assert found.done == frozenset()
        counter.write(found)
        assert complete(counter.own, found.token)
        tokens.add(found.token)
    assert len(tokens) == 3


def test_an_hour_of_backoff_is_one_call(counter: Counter) -> None:
    counter.ask("tonight")
    due, waits = NOON, []
    for _attempt in range(4):
        again = fail(counter.own, counter.start("tonight", due).token, "the file is broken", now=due)
        assert again is not None
        assert counter.claim(again - SECOND) == []
        waits.append(again - due)
        due = again
    assert waits == [timedelta(minutes=1), timedelta(minutes=4), timedelta(minutes=16), HOUR]
    assert fail(counter.own, counter.start("tonight", due).token, "the file is broken", now=due) is None
    assert counter.claim(due + 1000 * HOUR) == []
    ended = counter.get("tonight")
    assert (ended.state, ended.failures, ended.error) == ("failed", 5, "the file is broken")


def test_attempts_and_delay_are_settings(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_REQUEST_ATTEMPTS", "2")
    monkeypatch.setenv("REFRESH_REQUEST_RETRY", "5")
    counter.ask("tonight")
    again = fail(counter.own, counter.start("tonight").token, "no", now=NOON)
    assert again == NOON + 5 * SECOND
    assert fail(counter.own, counter.start("tonight", again).token, "no", now=again) is None
    assert counter.get("tonight").state == "failed"


def test_a_failed_attempt_is_seen_with_its_error_while_the_next_one_is_waited_for(counter: Counter) -> None:
    counter.ask("tonight")
    fail(counter.own, counter.start("tonight").token, "the file is broken", now=NOON)
    found = counter.get("tonight")
    assert (found.state, found.failures, found.error) == ("waiting", 1, "the file is broken")
    assert counter.sql(f"SELECT consecutive_failures, last_failure, picked_by FROM {TASKS}") == [(1, NOON, None)]


def test_what_one_attempt_has_done_the_next_one_need_not_do(counter: Counter) -> None:
    counter.ask("tonight")
    first = counter.start("tonight", parts=["datasets", "dataset_rights"])
    counter.write(first, part="datasets")
    again = fail(counter.own, first.token, "the file of dataset_rights is broken", now=NOON)
    assert again is not None
    assert counter.start("tonight", again).done == {"datasets"}


@pytest.mark.parametrize("how", ["moved", "made anew", "changed from psql"])
def test_what_was_done_counts_no_more_when_it_is_asked_anew(counter: Counter, how: str) -> None:
    counter.ask("tonight")
    first = counter.start("tonight")
    counter.write(first)
    fail(counter.own, first.token, "killed", now=NOON)
    if how == "moved":
        client.reschedule(counter.conn, "tonight", NOON)
    elif how == "made anew":
        counter.sql(f"DELETE FROM {TASKS}")
        counter.ask("tonight")
    else:
        # The row's version stays as it is.
        counter.sql(f"UPDATE {TASKS} SET task_data = %s, execution_time = %s", b"{}", NOON)
    assert counter.start("tonight").done == frozenset()


def test_a_postponed_request_is_due_again_and_no_attempt_was_used(counter: Counter) -> None:
    counter.ask("tonight")
    for n in range(20):
        found = counter.start("tonight", NOON + n * HOUR)
        assert found.attempt == 1
        assert postpone(counter.own, found.token, "another refresh held the lock", now=NOON + n * HOUR)
    assert counter.get("tonight").error == "another refresh held the lock"


def test_a_request_whose_run_was_cancelled_is_over_and_nobody_need_be_told(counter: Counter) -> None:
    counter.ask("tonight")
    assert call_off(counter.own, counter.start("tonight").token, "its run was cancelled")
    assert counter.get("tonight").state == "cancelled"
    assert counter.states() == {}


def test_an_error_of_any_length_and_with_any_character_can_be_kept(counter: Counter) -> None:
    counter.ask("tonight")
    park(counter.own, counter.start("tonight").token, "a\0b\ud800" + "x" * 100_000)
    assert counter.get("tonight").state == "failed"


@pytest.mark.parametrize("end", [complete, lambda conn, token: park(conn, token, "no")])
def test_only_the_present_claim_can_end_a_request(counter: Counter, end: object) -> None:
    counter.ask("tonight")
    first = counter.start("tonight")
    again = fail(counter.own, first.token, "stale", now=NOON)
    assert again is not None
    second = counter.start("tonight", again)
    counter.write(second)
    assert callable(end)
    assert not end(counter.own, first.token)
    assert end(counter.own, second.token)
    assert not end(counter.own, second.token)


# The fence


def test_a_run_whose_request_was_given_to_another_attempt_cannot_write(counter: Counter) -> None:
    counter.ask("tonight")
    first = counter.start("tonight")
    again = fail(counter.own, first.token, "stale", now=NOON)
    assert again is not None
    second = counter.start("tonight", again)
    with pytest.raises(RequestLostError, match="nothing was changed"):
        counter.write(first)
    counter.write(second)


def test_of_two_runs_under_one_token_only_the_first_can_write(counter: Counter) -> None:
    counter.ask("tonight")
    (found,) = counter.claim()
    assert bind(counter.own, found.token, "first", started=True)
    assert not bind(counter.own, found.token, "second", started=True)
    with pytest.raises(RequestLostError):
        counter.write(found, "second")
    counter.write(found, "first")


def test_of_two_runs_that_never_said_that_they_began_only_one_can_write(counter: Counter) -> None:
    counter.ask("tonight")
    (found,) = counter.claim()
    counter.write(found, "first")
    with pytest.raises(RequestLostError):
        counter.write(found, "second")


def test_a_run_whose_request_was_deleted_cannot_write(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    counter.sql(f"DELETE FROM {TASKS}")
    with pytest.raises(RequestLostError):
        counter.write(found)


def test_an_attempt_cannot_be_ended_between_the_fence_and_the_commit(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    ended: list[object] = []

    def end() -> None:
        with connect_requests(counter.env) as conn:
            ended.append(fail(conn, found.token, "stale", now=NOON))

    ending = threading.Thread(target=end)
    with counter.conn.transaction():
        from refresh_assets.requests.fence import seal

        seal(counter.conn, found.token, "run 1", "datasets")
        ending.start()
        wait_for_lock(counter)
        assert ended == []
    ending.join(30)
    assert ended == [NOON + timedelta(minutes=1)]
    assert counter.start("tonight", NOON + HOUR).done == {"datasets"}


def wait_for_lock(counter: Counter) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    wait_until(lambda: counter.sql(waiting) == [(1,)], 30)


# What a crash leaves


def test_a_claim_without_a_run_is_given_one_again_under_the_same_token(counter: Counter) -> None:
    counter.ask("tonight")
    (found,) = counter.claim(NOON)
    assert held(counter.own, untouched=SILENT, now=NOON + SILENT - SECOND) == []
    (again,) = held(counter.own, untouched=SILENT, now=NOON + SILENT)
    assert (again.token, again.attempt) == (found.token, 1)
    assert held(counter.own, untouched=SILENT, now=NOON + SILENT) == [], "the next poller need not take it, too"
    bind(counter.own, found.token, "a run")
    assert held(counter.own, untouched=SILENT, now=NOON + HOUR) == []


def test_a_claim_without_a_run_is_given_one_although_the_clock_was_set_back(counter: Counter) -> None:
    counter.ask("tonight")
    (found,) = counter.claim(NOON)
    assert held(counter.own, untouched=SILENT, now=NOON - SILENT + SECOND) == []
    (again,) = held(counter.own, untouched=SILENT, now=NOON - HOUR)
    assert again.token == found.token


def test_a_run_without_heartbeat_and_connection_is_stale_at_the_second_look(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    assert stale(counter.own, SILENT, LOOK, now=NOON + SILENT) == []
    late = NOON + SILENT + SECOND
    assert stale(counter.own, SILENT, LOOK, now=late) == []
    (gone,) = stale(counter.own, SILENT, LOOK, now=late + LOOK)
    assert (gone.token, gone.run_id, gone.beat_at) == (found.token, "run 1", NOON)


def test_a_heartbeat_between_two_looks_clears_the_suspicion(counter: Counter) -> None:
    counter.ask("tonight")
    found = counter.start("tonight")
    late = NOON + SILENT + SECOND
    stale(counter.own, SILENT, LOOK, now=late)
    assert beat(counter.own, found.token, now=late)
    assert stale(counter.own, SILENT, LOOK, now=late + LOOK) == []


def test_a_run_that_waits_for_its_process_is_not_stale(counter: Counter) -> None:
    counter.ask("tonight")
    (found,) = counter.claim()
    bind(counter.own, found.token, "queued")
    for n in range(3):
        assert stale(counter.own, SILENT, LOOK, now=NOON + n * HOUR) == []
    assert [work.run_id for work in in_work(counter.own)] == ["queued"]


def test_what_is_left_of_requests_that_are_gone_is_removed(counter: Counter) -> None:
    counter.ask("deleted", "kept")
    for found in counter.claim():
        plan(counter.own, found.token, ["datasets"])
    counter.sql(f"DELETE FROM {TASKS} WHERE task_instance = 'deleted'")
    prune(counter.own)
    assert counter.sql("SELECT task_instance FROM refresh_requests.request_claims") == [("kept",)]


def test_the_history_is_bounded(counter: Counter) -> None:
    counter.ask("old", "new", "old and failed")
    for found in counter.claim():
        if found.instance == "old and failed":
            park(counter.own, found.token, "no")
        else:
            complete(counter.own, found.token)
    counter.sql(
        "UPDATE refresh_requests.request_outcomes SET ended_at = now() - interval '91 days' "
        "WHERE task_instance <> 'new'"
    )
    prune(counter.own)
    assert {name for (name,) in counter.sql("SELECT task_instance FROM refresh_requests.request_outcomes")} == {
        "new",
        "old and failed",
    }


# How they stand


def test_how_requests_stand(counter: Counter) -> None:
    counter.ask("later", when=NOON + 20_000 * HOUR)
    counter.ask("overdue", "running", when=NOON)
    (found,) = claim(counter.own, 1)
    status = requests_status(counter.env)
    assert status is not None
    assert (status.waiting, status.due, status.running, status.parked) == (2, 1, 1, 0)
    assert "a request is due for" in status.wrong[0]
    park(counter.own, found.token, "no")
    status = requests_status(counter.env)
    assert status is not None
    assert status.wrong[1] == "1 request(s) failed for good; move or cancel each"


def test_where_nobody_ever_asked_there_is_nothing_to_tell_and_no_table_is_made(database: dict[str, str]) -> None:
    assert requests_status(database) is None


def test_one_attempt_is_none_to_retry(counter: Counter) -> None:
    counter.ask("tonight")
    only = RequestSettings(attempts=1)
    assert fail(counter.own, counter.start("tonight").token, "no", now=NOON, settings=only) is None
    assert counter.get("tonight").failures == 1

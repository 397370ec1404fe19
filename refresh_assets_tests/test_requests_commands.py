"""The commands `request …`, and what `check` says of requests."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refresh_assets.cli import main
from refresh_assets.requests.settle import complete, park
from refresh_assets_tests.requests_fixtures import NOON, Counter

pytestmark = pytest.mark.slow

AT = ("--at", "2026-01-04T13:00:00+01:00")


def call(*args: str) -> Result:
    return CliRunner().invoke(main, ["request", *args])


def told(*args: str) -> Any:
    done = call(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_request_is_added_moved_and_cancelled(counter: Counter) -> None:
    added = call("add", "tonight", *AT, "--table", "datasets", "--priority", "7")
    assert added.output == "tonight: waiting, for 2026-01-04T12:00:00+00:00, priority 7\n"
    assert counter.get("tonight").data == {"tables": ["datasets"]}
    moved = call("move", "tonight", "--at", "2026-01-05T12:00Z")
    assert moved.output == "tonight: waiting, for 2026-01-05T12:00:00+00:00, priority 7\n"
    assert call("cancel", "tonight").output == "tonight: cancelled\n"
    assert counter.states() == {}


def test_a_request_takes_the_options_of_the_launchpad_or_json(counter: Counter) -> None:
    sha256 = "ab" * 32
    call("add", "a", "--table", "datasets", "--accept-shrink", "--allowed", "CC0 1.0", "--sha256", sha256)
    assert counter.get("a").data == {
        "tables": ["datasets"],
        "accept_shrink": True,
        "allowed": ["CC0 1.0"],
        "sha256": sha256,
    }
    call("add", "b", "--data", '{"tables": {"datasets": {"accept_shrink": true}}}')
    assert counter.get("b").data == {"tables": {"datasets": {"accept_shrink": True}}}


def test_a_request_is_for_all_tables_now_without_a_word(counter: Counter) -> None:
    assert call("add", "now").exit_code == 0
    assert [found.instance for found in counter.claim(NOON + timedelta(days=100_000))] == ["now"]
    assert counter.get("now").data == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("add", "x", "--table", "nowhere"), "no such table: nowhere"),
        (("add", "x", "--at", "2026-01-04T13:00:00"), "has no time zone; give one"),
        (("add", "x", "--at", "tonight"), "is no time in ISO 8601"),
        (("add", "x" * 101), "at most 100"),
        (("add", "x", "--data", "{"), "not JSON"),
        (("add", "x", "--data", json.dumps({"tables": ["y" * 70_000]})), "at most 65536"),
        (("move", "x"), "there is no request 'x'"),
        (("cancel", "x"), "there is no request 'x'"),
        (("show", "x"), "there is no request 'x', and none of that name has ended"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(counter: Counter, args: tuple[str, ...], said: str) -> None:
    done = call(*args)
    assert done.exit_code == 1
    assert said in done.output
    assert "Traceback" not in done.output
    assert counter.states() == {}


@pytest.mark.parametrize(
    "option", [("--accept-shrink",), ("--table", "datasets"), ("--allowed", "CC0 1.0"), ("--sha256", "0" * 64)]
)
def test_json_and_options_for_tables_exclude_each_other(counter: Counter, option: tuple[str, ...]) -> None:
    done = call("add", "x", "--data", "{}", *option)
    assert done.exit_code == 2
    assert f"leave out {option[0]}\n" in done.output


def test_a_list_without_any_request_says_so(counter: Counter) -> None:
    assert call("list").output == "no request runs, waits or has failed for good\n"
    assert call("list", "--json").output == "[]\n"


def test_a_name_that_is_taken_is_told_and_can_be_replaced(counter: Counter) -> None:
    call("add", "tonight", *AT)
    assert "there is a request 'tonight' already" in call("add", "tonight").output
    assert call("add", "tonight", "--table", "datasets", "--replace").exit_code == 0
    assert counter.get("tonight").data == {"tables": ["datasets"]}


def test_a_running_request_can_be_neither_moved_nor_cancelled(counter: Counter) -> None:
    call("add", "tonight", *AT)
    counter.start("tonight")
    for command in ("move", "cancel"):
        done = call(command, "tonight")
        assert done.exit_code == 1
        assert "'tonight' is being run" in done.output


def test_the_list_and_one_request_are_shown_with_all_that_is_known(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_UI_URL", "http://dagster.example.org")
    for end in (complete, lambda conn, token: park(conn, token, "the file\nis broken")):
        counter.ask("tonight", data={"tables": ["datasets"]})
        found = counter.start("tonight")
        counter.write(found)
        end(counter.own, found.token)
    assert call("list").output == (
        "tonight: failed, for 2026-01-04T12:00:00+00:00, 1 failed attempt(s): the file is broken\n"
    )
    assert [one["name"] for one in told("list")] == ["tonight"]
    shown = told("show", "tonight")
    assert shown["run"] == "http://dagster.example.org/runs/run 1"
    assert (shown["state"], shown["data"], shown["error"]) == (
        "failed",
        {"tables": ["datasets"]},
        "the file\nis broken",
    )
    assert [one["state"] for one in shown["earlier"]] == ["done"]
    lines = call("show", "tonight").output
    assert "state:       failed\n" in lines
    assert "earlier:     tonight: done, for" in lines


def test_check_wants_the_right_to_make_the_table_of_requests(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    counter.sql("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    try:
        monkeypatch.setenv("PGUSER", "guest")
        monkeypatch.setenv("PGPASSWORD", "guest")
        done = CliRunner().invoke(main, ["check"])
        assert "schema 'refresh_requests'" in done.output
    finally:
        counter.sql("DROP OWNED BY guest; DROP ROLE guest")

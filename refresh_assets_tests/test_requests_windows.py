"""Requests for windows: planned, loaded, fenced, and only what is left is loaded again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

from refresh_assets.cli import main
from refresh_assets.definitions import build_defs
from refresh_assets.requestable import kinds_of_requests
from refresh_assets.requests.fence import RequestLostError
from refresh_assets.requests.runs import kept_alive
from refresh_assets.requests.sensors import tick
from refresh_assets.windows import desk as desk_module
from refresh_assets_tests.requests_fixtures import TASKS, Counter
from refresh_assets_tests.windows_fixtures import WindowDesk, crowd, today

pytestmark = pytest.mark.slow

SPAN = {"since": "2026-03-01T00:00:00+00:00", "until": "2026-03-03T00:00:00+00:00"}


@dataclass
class Booth:
    """Requests and windows in one database, and an instance of Dagster."""

    counter: Counter
    windows: WindowDesk
    instance: dg.DagsterInstance
    repository: dg.RepositoryDefinition

    def look(self) -> list[dg.RunRequest]:
        context = dg.build_sensor_context(instance=self.instance, repository_def=self.repository)
        return list(tick(context, kinds_of_requests).runs)

    def run(self) -> list[bool]:
        """Look once, and execute what is asked for; tell whether each run succeeded."""
        return [
            self.repository.get_job(str(request.job_name))
            .execute_in_process(
                instance=self.instance, tags=dict(request.tags), run_config=request.run_config, raise_on_error=False
            )
            .success
            for request in self.look()
        ]

    def due_now(self) -> None:
        self.counter.sql(f"UPDATE {TASKS} SET execution_time = now() WHERE NOT picked")


@pytest.fixture
def booth(counter: Counter, windows: WindowDesk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Booth]:
    settings = {"REFRESH_HOME": str(tmp_path), "WINDOW_SOURCE": "moodle", "WINDOW_CRON": "0 0 * * *"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(desk_module, "read_source", lambda _env: windows.source)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Booth(counter, windows, instance, build_defs().get_repository_def())


def test_a_run_that_is_executed_again_does_nothing_and_says_how_to_ask_again(booth: Booth) -> None:
    booth.counter.ask("march", data=SPAN)
    assert booth.run() == [True]
    booth.look()
    (run,) = booth.instance.get_runs()
    again = run.with_tags({**run.tags, "dagster/parent_run_id": run.run_id})
    with (
        pytest.raises(RequestLostError, match="ask again with `refresh-assets request add"),
        kept_alive(booth.instance, again, timedelta(seconds=10), print),
    ):
        pytest.fail("it went on")


def test_a_request_for_a_span_of_time_loads_its_windows(booth: Booth) -> None:
    booth.windows.write(*crowd("2026-03-01T09:00Z", "oak", 9), *crowd("2026-03-03T00:00Z", "elm", 9))
    booth.counter.ask("march", data=SPAN)
    assert booth.run() == [True]
    booth.look()
    assert booth.counter.get("march").state == "done"
    loaded = booth.windows.rows("SELECT since::date::text, run_id IS NOT NULL FROM etl.window_loads ORDER BY 1")
    assert loaded == [("2026-03-01", True), ("2026-03-02", True)]
    assert booth.windows.events() == {"2026-03-01": {"oak": 9}}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"since": SPAN["until"], "until": SPAN["since"]}, "until"),
        ({"since": SPAN["since"]}, "until is missing"),
        ({"kind": "windows"}, "since is missing"),
        ({"since": 1, "until": 2}, "since must be a text"),
        ({"since": "2026-03-01T00:00:00", "until": SPAN["until"]}, "has no time zone"),
        ({"since": SPAN["since"], "until": "2999-01-01T00:00:00+00:00"}, "lies in the future"),
        ({**SPAN, "tables": ["datasets"]}, "has no"),
    ],
)
def test_a_span_that_cannot_be_is_parked_and_the_next_request_runs(
    booth: Booth, data: dict[str, Any], told: str
) -> None:
    booth.counter.ask("bad", data=data)
    booth.counter.ask("good", data=SPAN)
    names = [request.tags["refresh/request"] for _round in range(3) for request in booth.look()]
    assert names == ["good"]
    assert booth.counter.get("bad").state == "failed"
    assert told in str(booth.counter.get("bad").error)


def test_only_the_windows_that_were_not_loaded_are_tried_again(booth: Booth) -> None:
    booth.windows.load_span("2026-02-01", "2026-02-02")
    booth.windows.admin.execute("ALTER TABLE etl.activity_metrics ADD CONSTRAINT no_bad CHECK (course <> 'bad')")
    booth.windows.write(*crowd("2026-03-01T09:00Z", "oak", 9), *crowd("2026-03-02T09:00Z", "bad", 9))
    booth.counter.ask("march", data=SPAN)
    assert booth.run() == [False]
    booth.windows.admin.execute("ALTER TABLE etl.activity_metrics DROP CONSTRAINT no_bad")
    booth.look()
    booth.due_now()
    (request,) = booth.look()
    assert request.tags["dagster/asset_partition_range_start"] == "2026-03-02T00:00+0000"
    assert request.tags["dagster/asset_partition_range_end"] == "2026-03-02T00:00+0000"


def test_a_run_whose_request_was_taken_away_loads_no_window(booth: Booth) -> None:
    booth.windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    booth.counter.ask("march", data=SPAN)
    (request,) = booth.look()
    booth.counter.sql(f"DELETE FROM {TASKS}")
    job = booth.repository.get_job(str(request.job_name))
    assert not job.execute_in_process(instance=booth.instance, tags=dict(request.tags), raise_on_error=False).success
    assert booth.windows.events() == {}


def test_the_span_of_a_request_for_later_may_end_before_then(booth: Booth) -> None:
    span = {"since": today().isoformat(), "until": (today() + timedelta(days=1)).isoformat()}
    args = ["request", "add", "tomorrow", "--data", json.dumps(span)]
    done = CliRunner().invoke(main, args)
    assert (done.exit_code, "lies in the future" in done.output) == (1, True)
    assert CliRunner().invoke(main, [*args, "--at", (today() + timedelta(days=2)).isoformat()]).exit_code == 0
    assert booth.counter.get("tomorrow").data == span

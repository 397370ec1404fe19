"""When the weekly refresh is due, and what a daemon does that was down when it was."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.schedules import schedule_execution_time_iterator

from refresh_assets.instance import prepare_home
from refresh_assets.published.schedules import CRON, JOB, weekly_schedule
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows
from refresh_assets_tests.waiting import wait_until

SCHEDULE = "weekly_refresh_schedule"
BERLIN = "Europe/Berlin"


def slots(start: datetime, zone: str) -> Iterator[datetime]:
    """Return the slots from an instant on, as the daemon computes them."""
    schedule = weekly_schedule(zone)
    assert isinstance(schedule.cron_schedule, str)
    return schedule_execution_time_iterator(start.timestamp(), schedule.cron_schedule, schedule.execution_timezone)


def test_over_a_year_it_is_due_every_monday_at_04_17_of_the_clock_on_the_wall() -> None:
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(BERLIN))
    due = list(itertools.islice(slots(start, BERLIN), 52))
    assert due[0] == datetime(2026, 1, 5, 4, 17, tzinfo=ZoneInfo(BERLIN))
    assert due[-1] == datetime(2026, 12, 28, 4, 17, tzinfo=ZoneInfo(BERLIN))
    on_the_wall = {slot.astimezone(ZoneInfo(BERLIN)).strftime("%a %H:%M") for slot in due}
    assert on_the_wall == {"Mon 04:17"}


def test_a_week_with_a_change_of_the_clock_has_an_hour_less_or_more() -> None:
    due = [
        slot.astimezone(timezone.utc)
        for slot in itertools.islice(slots(datetime(2026, 1, 1, tzinfo=timezone.utc), BERLIN), 52)
    ]
    uneven = {
        after.date().isoformat(): after - before
        for before, after in itertools.pairwise(due)
        if after - before != timedelta(days=7)
    }
    assert uneven == {
        "2026-03-30": timedelta(days=7, hours=-1),
        "2026-10-26": timedelta(days=7, hours=1),
    }


def test_without_a_setting_it_is_due_at_04_17_utc() -> None:
    start = datetime(2026, 7, 6, 4, 17, tzinfo=timezone.utc)
    assert next(slots(start + timedelta(seconds=1), "UTC")) == start + timedelta(days=7)


@contextmanager
def daemon(folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's own daemon with the settings of this process's environment; end it with all it has started."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(folder / "workspace.yaml")]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, cwd=folder)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def wait(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    def look() -> bool:
        assert process.poll() is None, log.read_text()
        return condition()

    wait_until(look, seconds, log.read_text)


def origin_of(instance: dg.DagsterInstance, folder: Path) -> tuple[RemoteInstigatorOrigin, str]:
    """Return how the daemon names the schedule in the storage."""
    target = WorkspaceFileTarget([str(folder / "workspace.yaml")])
    with WorkspaceProcessContext(instance, target) as process, process.create_request_context() as workspace:
        location = workspace.get_code_location("refresh_assets")
        schedule = location.get_repository("__repository__").get_schedule(SCHEDULE)
        return schedule.get_remote_origin(), schedule.selector_id


def remember_tick(instance: dg.DagsterInstance, origin: RemoteInstigatorOrigin, selector: str, at: datetime) -> None:
    """Leave the storage as a daemon does that was stopped after a tick."""
    data = ScheduleInstigatorData(CRON, (at - timedelta(days=1)).timestamp(), at.timestamp())
    instance.add_instigator_state(
        InstigatorState(origin, InstigatorType.SCHEDULE, InstigatorStatus.DECLARED_IN_CODE, data)
    )
    instance.create_tick(
        TickData(
            origin.get_id(),
            SCHEDULE,
            InstigatorType.SCHEDULE,
            TickStatus.SUCCESS,
            at.timestamp(),
            run_ids=[str(uuid.uuid4())],
            selector_id=selector,
        )
    )


@pytest.mark.slow
def test_of_several_slots_missed_while_everything_was_down_the_latest_is_caught_up_once(
    shop_here: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop_here.publish(dataset_rows(5))
    shop_here.publish_file("dataset_rights.csv", csv_text(rights_rows(3), RIGHTS_HEADER), 3)
    folder = prepare_home(tmp_path / "home")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    now = datetime.now(timezone.utc)
    missed = list(itertools.takewhile(lambda slot: slot <= now, slots(now - timedelta(weeks=5), "UTC")))
    last, latest = missed[0], missed[-1]
    log = tmp_path / "daemon.log"
    with dg.DagsterInstance.get() as instance:
        origin, selector = origin_of(instance, folder)
        remember_tick(instance, origin, selector, last)
        with daemon(folder, log) as process:
            finished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE])
            wait(lambda: instance.get_runs_count(finished) > 0, process, log)
        ticks = instance.get_ticks(origin.get_id(), selector)
        (run,) = instance.get_runs()
    assert [(tick.timestamp, tick.status) for tick in ticks] == [
        (latest.timestamp(), TickStatus.SUCCESS),
        (last.timestamp(), TickStatus.SUCCESS),
    ]
    assert ticks[0].run_ids == [run.run_id]
    assert (run.job_name, run.status) == (JOB, dg.DagsterRunStatus.SUCCESS)
    assert run.tags["dagster/schedule_name"] == SCHEDULE
    assert shop_here.rows("SELECT count(*) FROM etl.datasets") == [(5,)]

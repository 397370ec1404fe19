"""Requests under a real daemon: runs in processes of their own, some of them killed."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import psutil
import pytest

from refresh_assets.requests import client
from refresh_assets.requests.storage import connect_requests
from refresh_assets_tests.night_watch import NightWatch, kill_process
from refresh_assets_tests.requests_fixtures import TASKS, application
from refresh_assets_tests.shop import dataset_rows

pytestmark = pytest.mark.slow
OF_THE_RUN = "application_name LIKE 'refresh-assets request %' OR application_name = 'refresh-assets datasets'"
AT_THE_LOCK = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'refresh-assets datasets' AND wait_event_type = 'Lock'"
)
SLEEPING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"


def ask(night: NightWatch, *names: str, **options: Any) -> None:
    with connect_requests(night.env) as conn:
        for name in names:
            assert client.schedule_if_not_exists(conn, name, **options)


def ended(night: NightWatch, name: str) -> client.Request:
    """Return a request as soon as it is over."""

    def look() -> client.Request | None:
        found = client.get(night.shop.admin, name)
        return found if found and found.state not in ("waiting", "running") else None

    found = night.wait(look, 120)
    assert isinstance(found, client.Request)
    return found


def run_of(night: NightWatch, name: str) -> str:
    """Return the run of a request as soon as its process has begun."""
    query = (
        f"SELECT run_id FROM refresh_requests.request_claims WHERE task_instance = '{name}' AND started_at IS NOT NULL"
    )
    return str(night.wait(lambda: night.shop.rows(query))[0][0])


def test_requests_are_run_and_each_once_although_run_code_server_and_daemon_are_killed_on_the_way(
    night: NightWatch,
) -> None:
    rows = dataset_rows(40)
    night.shop.publish([(rows[0][0], "A corrected title", *rows[0][2:]), *rows[1:]])
    night.shop.admin.execute(
        "CREATE FUNCTION etl.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(120); RETURN NEW; END $$"
    )
    night.shop.admin.execute(
        "CREATE TRIGGER slow BEFORE UPDATE ON etl.datasets FOR EACH ROW EXECUTE FUNCTION etl.slow()"
    )
    loads = night.shop.rows("SELECT count(*) FROM etl.refresh_loads")[0][0]
    ask(night, "killed in its transaction", data={"tables": ["datasets"]})
    first = run_of(night, "killed in its transaction")
    night.wait(lambda: night.shop.rows(SLEEPING))
    kill_process(night.pid_of(first))
    night.shop.rows(f"SELECT pg_terminate_backend(pid, 5000) FROM ({SLEEPING}) AS asleep")
    night.shop.admin.execute("DROP FUNCTION etl.slow CASCADE")
    night.kill()
    ask(night, "while no daemon runs", data={"tables": ["dataset_rights"]})
    night.start()
    found = ended(night, "killed in its transaction")
    assert found.state == "done"
    assert found.run_id != first
    assert ended(night, "while no daemon runs").state == "done"
    assert night.shop.rows("SELECT count(*) FROM etl.refresh_loads")[0][0] == loads + 1
    assert night.shop.rows(f"SELECT count(*) FROM {TASKS}") == [(0,)]
    titles = night.shop.rows("SELECT count(*) FROM etl.datasets WHERE title = 'A corrected title'")
    assert titles == [(1,)]
    # Nobody is told of attempts that were made good.
    night.quiet()
    assert [x.mail["Subject"] for x in night.mails if "request" in x.text()] == []


def test_a_run_that_was_frozen_and_wakes_up_when_its_request_has_another_run_changes_nothing(
    night: NightWatch,
) -> None:
    rows = dataset_rows(40)
    night.shop.publish([(rows[0][0], "Corrected again", *rows[0][2:]), *rows[1:]])
    with application(night.env) as other, other.transaction():
        other.execute("LOCK TABLE etl.datasets IN SHARE ROW EXCLUSIVE MODE")
        ask(night, "frozen", data={"tables": ["datasets"]})
        first = run_of(night, "frozen")
        pid = night.pid_of(first)
        night.wait(lambda: night.shop.rows(AT_THE_LOCK))
        os.kill(pid, signal.SIGSTOP)
    try:
        # The network takes its connections away, as it does from a host that is cut off.
        night.shop.rows(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {OF_THE_RUN}")
        found = ended(night, "frozen")
    finally:
        os.kill(pid, signal.SIGCONT)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)
    assert found.state == "done"
    assert found.run_id != first
    loads = "SELECT run_id FROM etl.refresh_loads WHERE job = 'datasets.csv' ORDER BY load_id DESC LIMIT 1"
    assert night.shop.rows(loads) == [(found.run_id,)]

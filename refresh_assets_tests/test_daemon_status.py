"""Who leads and who stands by, as `refresh-assets status` shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from dagster._core.scheduler.instigation import InstigatorStatus, TickStatus

from refresh_assets.daemon.lease import Lease
from refresh_assets.daemon.register import Participant, Register, State, Term, connect_register, participants
from refresh_assets.daemon.standing import last_tick
from refresh_assets.daemon.status import Daemons, Tick
from refresh_assets.daemon.timing import Timing
from refresh_assets_tests.test_alerts_waiting import noted, ticked
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import Watchtower

NOW = datetime(2026, 3, 3, 8, 41, tzinfo=timezone.utc)


def one(state: State, pid: int, *, leads: bool = False, minutes: float = 30) -> Participant:
    return Participant("etl-1", pid, state, NOW - timedelta(minutes=minutes), NOW, leads)


STANDING = Daemons(
    NOW,
    [one("leader", 1, leads=True), one("standby", 2)],
    Term("etl-1", 1, NOW - timedelta(minutes=30), None),
    Tick("failure_mail", NOW),
    "UTC",
)


def test_leader_standbys_and_last_tick_are_shown() -> None:
    assert list(STANDING.lines()) == [
        "ok     leader: etl-1, pid 1, leader since 2026-03-03 08:11 UTC, 30 min ago",
        "ok     standby: etl-1, pid 2, standby since 2026-03-03 08:11 UTC, 30 min ago",
        "--     last tick: failure_mail, 2026-03-03 08:41 UTC, 0 min ago",
    ]
    assert STANDING.wrong == []


def test_a_lease_that_nobody_gets_is_wrong() -> None:
    assert replace(STANDING, participants=[one("standby", 2)]).wrong == ["no daemon leads, although one stands by"]
    assert replace(STANDING, participants=[one("standby", 2, minutes=0.5)]).wrong == []


def test_a_leader_that_is_gone_without_a_successor_is_wrong_unless_it_handed_over() -> None:
    alone = replace(STANDING, participants=[])
    assert alone.wrong == ["no daemon leads: etl-1, pid 1, led last and did not hand over"]
    assert replace(alone, last_term=Term("etl-1", 1, NOW, NOW)).wrong == []
    assert replace(alone, last_term=None).wrong == []


def test_the_last_tick_is_the_newest_of_all_schedules_and_sensors(tower: Watchtower) -> None:
    assert last_tick(tower.instance) is None
    for name, hour in (("nightly", 3), ("hourly", 8)):
        state = noted(tower, InstigatorStatus.DECLARED_IN_CODE, name)
        ticked(tower, state, TickStatus.SUCCESS, timestamp=NOW.replace(hour=hour).timestamp())
    assert last_tick(tower.instance) == Tick("hourly", NOW)


@pytest.fixture
def leading(tower: Watchtower) -> Iterator[Lease]:
    lease = Lease.open(timing=Timing(lease=60))
    assert lease.try_lock()
    yield lease
    lease.close()


@pytest.mark.slow
def test_status_tells_of_the_leader_and_exits_1_when_it_is_gone(tower: Watchtower, leading: Lease) -> None:
    register = Register()
    register.begin_term(leading.pid)
    with register:
        register.enter("leader", leading.pid)
        with connect_register() as conn:
            wait_until(lambda: [x.state for x in participants(conn) if x.leads] == ["leader"])
        _code, out, _err = tower.shop.run("status", "--json", DAGSTER_HOME=None)
        found = json.loads(out)
        leader = found["daemon"]["leader"]
        assert (leader["pid"], leader["state"]) == (os.getpid(), "leader")
        assert "no daemon leads" not in " ".join(found["wrong"])
    leading.close()
    with connect_register() as conn:
        wait_until(lambda: not participants(conn))
    code, out, _err = tower.shop.run("status", DAGSTER_HOME=None)
    assert code == 1
    assert f"pid {os.getpid()}, led last and did not hand over" in out

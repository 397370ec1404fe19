"""Five hundred requests, three pollers, and processes that are killed at every point: each takes effect once."""

from __future__ import annotations

import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess

import pytest

from refresh_assets.requests import client
from refresh_assets_tests.requests_fixtures import NOON, TASKS, Counter
from refresh_assets_tests.requests_world import POINTS, ROLES, WORLD

REQUESTS = 500
CREW = ("poller", "poller", "poller", "worker", "worker", "worker")
CHANCE = 0.015
SECONDS = 150


class Crew:
    """The processes, each replaced when it is gone; some are killed from outside, wherever they are."""

    def __init__(self, env: dict[str, str], seed: int) -> None:
        self.env = env
        self.random = random.Random(seed)  # noqa: S311 - chance in a test
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["refresh_assets_tests.requests_world"])
        self.killed = 0
        self.members: list[BaseProcess] = [self._start(role) for role in CREW]

    def _start(self, role: str) -> BaseProcess:
        process = self.context.Process(
            target=ROLES[role], args=(self.env, self.random.randrange(2**32), CHANCE), name=role, daemon=True
        )
        process.start()
        return process

    def tend(self) -> None:
        for place, member in enumerate(self.members):
            if not member.is_alive():
                assert member.exitcode == -9, f"a {member.name} ended by itself, see its traceback"
                self.killed += 1
                self.members[place] = self._start(member.name)

    def kill_one(self) -> None:
        self.random.choice(self.members).kill()

    def end(self) -> None:
        for member in self.members:
            member.kill()
            member.join(10)


@pytest.mark.slow
def test_of_500_requests_each_takes_effect_once_whatever_is_killed(counter: Counter) -> None:
    counter.sql(WORLD)
    with counter.conn.transaction():
        for n in range(REQUESTS):
            client.schedule_if_not_exists(counter.conn, f"r{n}", NOON, priority=n % 3 or None)
    crew = Crew(counter.env, seed=114)
    deadline = time.monotonic() + SECONDS
    try:
        while counter.sql(f"SELECT count(*) FROM {TASKS}") != [(0,)]:
            assert time.monotonic() < deadline, counter.sql(f"SELECT * FROM {TASKS} LIMIT 5")
            crew.tend()
            if crew.random.random() < 0.1:
                crew.kill_one()
            time.sleep(0.05)
    finally:
        crew.end()
    deaths = {point for (point,) in counter.sql("SELECT DISTINCT point FROM world.death")}
    assert deaths == POINTS
    effects = counter.sql("SELECT instance, count(*) FROM world.effect GROUP BY 1")
    assert sorted(effects) == sorted((f"r{n}", 1) for n in range(REQUESTS))
    outcomes = counter.sql(
        "SELECT outcome, count(*), count(DISTINCT task_instance) FROM refresh_requests.request_outcomes GROUP BY 1"
    )
    assert outcomes == [("done", REQUESTS, REQUESTS)]
    assert counter.sql("SELECT count(*) FROM refresh_requests.request_claims") == [(0,)]

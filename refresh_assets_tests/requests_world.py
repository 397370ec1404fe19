"""Pollers and run workers as light processes that are killed; a table stands in for Dagster's runs.

What they do about requests they do with the product's own functions.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from psycopg import sql

from refresh_assets.alerts.pulse import Pulse
from refresh_assets.postgres.connect import Connection
from refresh_assets.requests.claim import Claim, bind, claim, held, in_work, plan
from refresh_assets.requests.fence import RequestLostError, seal
from refresh_assets.requests.heartbeat import RequestBeat
from refresh_assets.requests.settings import RequestSettings
from refresh_assets.requests.settle import complete, fail, stale
from refresh_assets.requests.storage import connect_requests

# No attempt may be the last one here, and none may wait for long.
QUICK = RequestSettings(attempts=1000, delay=0.02)
BEAT, SILENT, LOOK, UNTOUCHED = (timedelta(seconds=seconds) for seconds in (0.1, 1.5, 0.3, 1.0))
POINTS = {
    "claimed",
    "run created",
    "run begun",
    "written, not committed",
    "committed",
    "run ended",
    "completion not committed",
}
WORLD = """
    CREATE SCHEMA world;
    CREATE TABLE world.run (
        run_id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
        token text NOT NULL,
        status text NOT NULL DEFAULT 'QUEUED',
        taken_at timestamptz
    );
    CREATE INDEX ON world.run (token);
    CREATE TABLE world.effect (instance text NOT NULL, run_id text NOT NULL);
    CREATE TABLE world.death (point text NOT NULL);
"""


class World:
    """One process's view: a connection, and the chance to die at each point."""

    def __init__(self, env: dict[str, str], seed: int, chance: float) -> None:
        os.environ.update(env)
        self.conn = connect_requests(env, "world")
        self.notes = connect_requests(env, "world notes")
        self.random = random.Random(seed)  # noqa: S311 - chance in a test
        self.chance = chance
        self.survived: set[str] = set()

    def point(self, name: str) -> None:
        """Die here, perhaps, as a process does that is killed; surely where none has died yet."""
        if self.random.random() < self.chance or self._nobody_died_at(name):
            self.notes.execute("INSERT INTO world.death VALUES (%s)", [name])
            os.kill(os.getpid(), signal.SIGKILL)

    def _nobody_died_at(self, name: str) -> bool:
        if name in self.survived:
            return False
        self.survived.add(name)
        return self.notes.execute("SELECT FROM world.death WHERE point = %s", [name]).fetchone() is None

    def rows(self, statement: str, *values: Any) -> list[Any]:
        cursor = self.conn.execute(sql.SQL(statement), values)
        return list(cursor.fetchall()) if cursor.description else []


def poller(env: dict[str, str], seed: int, chance: float) -> None:
    """Do what the sensor does, again and again."""
    world = World(env, seed, chance)
    while True:
        _settle(world)
        for found in [*held(world.conn, untouched=UNTOUCHED), *claim(world.conn, 5)]:
            world.point("claimed")
            plan(world.conn, found.token, ["effect"])
            _create_run(world, found)
            world.point("run created")
        time.sleep(0.02)


def _settle(world: World) -> None:
    for gone in stale(world.conn, SILENT, LOOK):
        world.rows("UPDATE world.run SET status = 'FAILURE' WHERE run_id = %s AND status = 'STARTED'", gone.run_id)
    # One that died before it began has no heartbeat that could fall silent; the failure sensor ends such runs.
    world.rows(
        "UPDATE world.run SET status = 'FAILURE' WHERE status = 'STARTED' AND taken_at < clock_timestamp() - %s "
        "AND token IN (SELECT token::text FROM refresh_requests.request_claims WHERE run_id IS NULL)",
        SILENT,
    )
    for work in in_work(world.conn):
        for run_id, status in world.rows("SELECT run_id, status FROM world.run WHERE token = %s", work.token):
            if work.run_id is not None and run_id != work.run_id:
                continue
            if status == "SUCCESS":
                with world.conn.transaction():
                    complete(world.conn, work.token)
                    world.point("completion not committed")
            elif status == "FAILURE":
                fail(world.conn, work.token, "the process of the run is gone", settings=QUICK)


def _create_run(world: World, found: Claim) -> None:
    """Create a run, as Dagster does: a look for the run key first, and no constraint."""
    if "effect" in found.done:
        complete(world.conn, found.token)
    elif not world.rows("SELECT run_id FROM world.run WHERE token = %s", found.token):
        world.rows("INSERT INTO world.run (token) VALUES (%s)", found.token)


def worker(env: dict[str, str], seed: int, chance: float) -> None:
    """Execute runs, again and again."""
    world = World(env, seed, chance)
    while True:
        taken = world.rows(
            "UPDATE world.run SET status = 'STARTED', taken_at = clock_timestamp() "
            "WHERE run_id = (SELECT run_id FROM world.run WHERE status = 'QUEUED' "
            "ORDER BY run_id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING run_id, token"
        )
        for run_id, token in taken:
            status = _execute(world, run_id, token)
            world.rows("UPDATE world.run SET status = %s WHERE run_id = %s", status, run_id)
            world.point("run ended")
        if not taken:
            time.sleep(0.02)


def _execute(world: World, run_id: str, token: str) -> str:
    if not bind(world.conn, token, run_id, started=True):
        return "FAILURE"
    world.point("run begun")
    with Pulse(RequestBeat(token), BEAT, lambda _text: None):
        try:
            with world.conn.transaction():
                _write(world.conn, run_id, token)
                world.point("written, not committed")
        except RequestLostError:
            return "FAILURE"
        world.point("committed")
    return "SUCCESS"


def _write(conn: Connection, run_id: str, token: str) -> None:
    conn.execute(
        "INSERT INTO world.effect SELECT task_instance, %s FROM refresh_requests.request_claims WHERE token = %s",
        [run_id, token],
    )
    seal(conn, token, run_id, "effect")


ROLES: dict[str, Callable[[dict[str, str], int, float], None]] = {"poller": poller, "worker": worker}

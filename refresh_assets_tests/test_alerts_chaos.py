"""Chaos: runs fail, the mail server comes and goes, the process that runs the sensor is killed at random instants."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from refresh_assets_tests.smtp_server import Caught, catching, free_port
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import Watchtower

FAILURES, KILLS, SEED = 200, 20, 20261130
# For each line on its standard input it forks a process that runs the sensor again and again.
SENSOR = """
import os, signal, sys
import dagster as dg
from refresh_assets.alerts.sensors import tick
from refresh_assets.definitions import build_defs

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
repository = build_defs().get_repository_def()
for _line in sys.stdin:
    if os.fork() == 0:
        with dg.DagsterInstance.get() as instance:
            print(os.getpid(), flush=True)
            while os.getppid() != 1:
                tick(dg.build_sensor_context(instance=instance, repository_def=repository))
"""


class Sensor:
    """The process that runs the sensor: started, and killed, again and again."""

    def __init__(self, launcher: subprocess.Popen[str]) -> None:
        self._launcher = launcher

    def start(self) -> int:
        """Return the process when it is about to look."""
        assert self._launcher.stdin is not None
        assert self._launcher.stdout is not None
        self._launcher.stdin.write("start\n")
        self._launcher.stdin.flush()
        return int(self._launcher.stdout.readline())

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.kill(pid, 0)
                time.sleep(0.005)


class Mail:
    """A mail server that comes and goes at one port, and all that it ever took; it is down at first."""

    def __init__(self, port: int) -> None:
        self.mails: list[Caught] = []
        self._port = port
        self._running = contextlib.ExitStack()
        self._up = False

    def more_than(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.mails) > count

    def up(self, wanted: bool) -> None:
        if wanted and not self._up:
            self._running.enter_context(catching(port=self._port)).mails = self.mails
        elif not wanted:
            self._running.close()
        self._up = wanted


@pytest.fixture
def mail(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mail]:
    port = free_port()
    monkeypatch.setenv("SMTP_PORT", str(port))
    mail = Mail(port)
    yield mail
    mail.up(wanted=False)


@pytest.fixture
def sensor(mail: Mail) -> Iterator[Sensor]:
    command = [sys.executable, "-c", SENSOR]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as launcher:
        try:
            yield Sensor(launcher)
        finally:
            launcher.kill()


def hours_pass(tower: Watchtower) -> None:
    """Let every mail be due; only while no sensor runs, whose claims this would break."""
    tower.sql("UPDATE refresh_alerts.alert_outbox SET next_attempt_at = clock_timestamp() WHERE sent_at IS NULL")


@pytest.mark.slow
def test_of_two_hundred_failures_each_is_mailed_whatever_is_killed_and_a_kill_repeats_one_mail_at_most(
    tower: Watchtower, sensor: Sensor, mail: Mail
) -> None:
    chance = random.Random(SEED)  # noqa: S311
    first = tower.create_run()
    tower.fail(first, "chaos")
    batches = [FAILURES // KILLS] * KILLS
    batches[0] -= 1
    for batch in batches:
        pid = sensor.start()
        up = chance.random() < 0.6
        mail.up(wanted=up)
        taken = len(mail.mails)
        tower.copy(first, batch)
        if up and chance.random() < 0.5:
            # In the middle of sending, however slow this machine is; else wherever it happens to be.
            wait_until(mail.more_than(taken))
        time.sleep(chance.uniform(0, 0.8))
        sensor.kill(pid)
        if chance.random() < 0.7:
            hours_pass(tower)
    assert mail.mails, "nothing was sent in the middle of all this"
    mail.up(wanted=True)
    hours_pass(tower)
    pid = sensor.start()
    sent = "SELECT count(*), count(sent_at) FROM refresh_alerts.alert_outbox"
    wait_until(lambda: tower.sql(sent) == [(FAILURES, FAILURES)], 90)
    sensor.kill(pid)
    failed = {row[0] for row in tower.shop.rows("SELECT run_id FROM dagster.runs")}
    events = {str(caught.mail["X-Refresh-Event"]).split(":")[1] for caught in mail.mails}
    assert len(failed) == FAILURES
    assert events == failed
    ids = [str(caught.mail["Message-ID"]) for caught in mail.mails]
    assert len(set(ids)) == FAILURES
    assert len(ids) - FAILURES <= KILLS

"""Mail about the database past the outbox, seen from the thread that sends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from refresh_assets.daemon.outage import Outage
from refresh_assets.daemon.timing import Timing
from refresh_assets_tests.smtp_server import catching
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import mail_settings

QUICK = replace(Timing(), outage=0.1, again=0.1)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def outages(tmp_path: Path, said: list[str]) -> Iterator[list[Outage]]:
    started: list[Outage] = []
    yield started
    for outage in started:
        outage.stop()


def test_a_recipient_who_is_refused_at_first_is_told_later_and_nobody_twice(
    tmp_path: Path, said: list[str], outages: list[Outage]
) -> None:
    refused = {"other@example.org": "450 greylisted, try again"}
    with catching(refused=refused) as server:
        env = {**mail_settings(server), "ALERT_TO": "team@example.org, other@example.org"}

        def start() -> None:
            outages.append(Outage(tmp_path, QUICK, said.append, env))
            outages[-1].failed("connection refused")
            outages[-1].start()

        start()
        wait_until(lambda: any("refused for other@example.org: 450 greylisted" in line for line in said))
        outages[-1].stop()
        wait_until(lambda: "outage" not in [thread.name for thread in threading.enumerate()])
        # Started again, it knows who has it.
        start()
        refused.clear()
        wait_until(lambda: len(server.mails) > 1)
    assert len([line for line in said if "refused for other" in line or "could not be told" in line]) < 10
    assert [caught.recipients for caught in server.mails] == [("team@example.org",), ("other@example.org",)]

"""Fixtures for all tests."""

import signal
import time
from datetime import datetime, timedelta, timezone

import pytest

# A shell starts its background jobs with it ignored, and so would be every process that a test sends it to.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "refresh_assets_tests.outbox_fixtures",
    "refresh_assets_tests.postgres_fixtures",
    "refresh_assets_tests.event_logs",
    "refresh_assets_tests.published_fixtures",
    "refresh_assets_tests.chunk_fixtures",
    "refresh_assets_tests.requests_fixtures",
    "refresh_assets_tests.shop",
    "refresh_assets_tests.floor",
    "refresh_assets_tests.watchtower",
    "refresh_assets_tests.night_watch",
    "refresh_assets_tests.relay",
    "refresh_assets_tests.windows_fixtures",
    "refresh_assets_tests.requests_clerk",
]

# When a window ends or a shipped schedule ticks, in UTC: at each hour, and at these times of day.
TURNS = ((4, 15), (4, 17))
LONGEST_TEST = timedelta(seconds=45)


@pytest.fixture(autouse=True)
def no_turn_in_a_test() -> None:
    """Wait where an hour is about to end or a schedule to tick, so that what is due does not change in mid-test."""
    now = datetime.now(timezone.utc)
    hour = now.replace(minute=0, second=0, microsecond=0)
    turns = [hour + timedelta(hours=1), *(now.replace(hour=h, minute=m, second=0, microsecond=0) for h, m in TURNS)]
    waits = [turn - now for turn in turns if timedelta(0) <= turn - now <= LONGEST_TEST]
    if waits:
        time.sleep(max(waits).total_seconds())

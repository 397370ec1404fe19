"""Crons whose windows would not fit together when clocks are changed are refused, and no others."""

from __future__ import annotations

import time

import pytest

from refresh_assets.settings import SettingsError
from refresh_assets.windows.clock_changes import clock_changes, cut_otherwise
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.partitions import window_grid
from refresh_assets.windows.settings import read_windows
from refresh_assets_tests.windows_fixtures import at

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Beirut", "America/Havana", "Africa/Casablanca", "Asia/Tokyo", "UTC")
CRONS = ("15 4 * * 1-5", "0 0 * * *", "30 2 * * *", "0 * * * *", "*/15 * * * *", "0 2 29 2 *")


def settings(cron: str, zone: str) -> dict[str, str]:
    return {"WINDOW_SOURCE": "sample", "WINDOW_CRON": cron, "WINDOW_TIMEZONE": zone}


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        # Clocks are changed by half an hour, and by two.
        ("0 * * * *", "Australia/Lord_Howe"),
        ("30 1,2,3 * * *", "Antarctica/Troll"),
    ],
)
def test_a_cron_whose_windows_depend_on_where_one_begins_is_refused(cron: str, zone: str) -> None:
    for read in (windows_defs, lambda env: window_grid(read_windows(env))):
        with pytest.raises(SettingsError) as refused:
            read(settings(cron, zone))
        for part in ("WINDOW_CRON", cron, zone, "once a day", "WINDOW_TIMEZONE to UTC"):
            assert part in str(refused.value)


def test_what_is_advised_instead_is_taken() -> None:
    for cron, zone in (("15 4 * * *", "Australia/Lord_Howe"), ("15 4 * * *", "Antarctica/Troll"), ("0 * * * *", "UTC")):
        assert window_grid(read_windows(settings(cron, zone))).cron == cron


@pytest.mark.parametrize("zone", ZONES)
def test_crons_whose_windows_fit_together_are_taken(zone: str) -> None:
    for cron in CRONS:
        assert window_grid(read_windows(settings(cron, zone))).timezone == zone


def test_clock_changes_are_found_to_the_minute() -> None:
    assert [change for change in clock_changes("Australia/Lord_Howe", 2026) if change.year == 2026] == [
        at("2026-04-04T15:00"),
        at("2026-10-03T15:30"),
    ]
    assert list(clock_changes("Asia/Tokyo", 2026)) == []


def test_it_takes_no_time_worth_speaking_of() -> None:
    """The definitions are loaded by every process of Dagster."""
    cut_otherwise("7 3 * * *", "Europe/Paris", 2025)
    began = time.process_time()
    for cron in ("15 4 * * 1-5", "0 * * * *", "*/15 * * * *"):
        cut_otherwise(cron, "Europe/Paris", 2026)
    # About 10 ms on an idle machine; three times the bound of one, for three.
    assert time.process_time() - began < 0.15

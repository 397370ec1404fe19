"""What the page of `activity_metrics` says before anything ran: owners, freshness, source code, what to do."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy
from dagster._core.definitions.utils import is_valid_owner

from refresh_assets.cron import CronTicks
from refresh_assets.settings import SettingsError
from refresh_assets.windows.assets import METRICS
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.presented import freshness, longest_window
from refresh_assets.windows.settings import read_owners, window_problems

PACKAGE = Path(__file__).parent.parent / "refresh_assets"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def metrics(**settings: str) -> dg.AssetSpec:
    found = windows_defs({"WINDOW_SOURCE": "sample", **settings})
    (spec,) = [spec for spec in found.resolve_all_asset_specs() if spec.key == METRICS]
    return spec


def sources(spec: dg.AssetSpec) -> list[str]:
    value = spec.metadata["dagster/code_references"]
    assert isinstance(value, dg.CodeReferencesMetadataValue)
    return [
        reference.url if isinstance(reference, dg.UrlCodeReference) else reference.file_path
        for reference in value.code_references
    ]


def test_it_has_the_owner_of_the_tables_or_those_that_are_set() -> None:
    assert metrics().owners == ["team:data"]
    assert metrics(WINDOW_OWNERS="team:learning, ann@example.org,").owners == ["ann@example.org", "team:learning"]


@pytest.mark.parametrize("owners", ["data", "team:", "ann@example", "team:data;team:learning", ",", "team:a\nb"])
def test_owners_that_dagster_does_not_take_are_refused_by_the_setting(owners: str) -> None:
    settings = {"WINDOW_SOURCE": "sample", "WINDOW_OWNERS": owners}
    with pytest.raises(SettingsError, match="WINDOW_OWNERS must be owners with commas between them, each an e-mail"):
        windows_defs(settings)
    assert any("WINDOW_OWNERS" in problem for problem in window_problems(settings))


@pytest.mark.parametrize("owner", ["team:data", "team:Learning Data", "ann@example.org", "ann+x@a-b.example.museum"])
def test_what_is_taken_dagster_takes(owner: str) -> None:
    (found,) = read_owners({"WINDOW_OWNERS": f" {owner} "})
    assert found == owner
    assert is_valid_owner(found)


def test_its_source_is_the_code_on_this_machine_or_in_the_repository() -> None:
    assert sources(metrics()) == [str(PACKAGE / "windows" / "assets.py")]
    base = "https://git.example.org/data/refresh"
    assert sources(metrics(REFRESH_SOURCE_URL=f"{base}/")) == [f"{base}/refresh_assets/windows/assets.py"]


def test_it_says_what_to_do_if_it_is_red() -> None:
    description = metrics(WINDOW_CRON="0 5 * * *", WINDOW_TIMEZONE="Europe/Berlin").description or ""
    assert "**If it is red**" in description
    assert "`0 5 * * *` (Europe/Berlin)" in description
    assert "refresh-assets windows run" in description


def test_a_window_must_be_loaded_within_the_longest_one_and_the_delay_that_is_borne() -> None:
    policy = metrics(WINDOW_MAX_DELAY="7200", WINDOW_START=f"{datetime.now(timezone.utc):%Y-%m-%d}").freshness_policy
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    assert policy.fail_window.to_timedelta() == 3 * DAY + 2 * HOUR
    assert policy.warn_window is not None
    assert policy.warn_window.to_timedelta() == 3 * DAY + HOUR


def test_a_limit_below_what_dagster_takes_is_a_minute() -> None:
    policy = freshness(timedelta(seconds=20), timedelta(seconds=20))
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    assert policy.fail_window.to_timedelta() == timedelta(minutes=1)
    assert policy.warn_window is None


@pytest.mark.parametrize(
    ("cron", "zone", "longest"),
    [
        ("0 0 * * *", "UTC", DAY),
        ("0 * * * *", "Europe/Berlin", HOUR),
        ("* * * * *", "UTC", timedelta(minutes=1)),
        # The night on which clocks are put back.
        ("0 5 * * *", "Europe/Berlin", DAY + HOUR),
        ("0 8-18 * * 1-5", "UTC", 62 * HOUR),
        ("0 0 1 * *", "UTC", 31 * DAY),
        ("0 0 1 1 *", "UTC", 365 * DAY),
    ],
)
def test_the_longest_window_is_found(cron: str, zone: str, longest: timedelta) -> None:
    grid = CronTicks(cron, zone, datetime(2020, 1, 1, tzinfo=timezone.utc))
    assert longest_window(grid, 2026) == longest

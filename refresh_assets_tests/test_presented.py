"""What the definitions say of an asset before anything ran: freshness, owners, source code, columns, what to do."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from refresh_assets.definitions import build_defs
from refresh_assets.published.checks import FILE_CHECKS, TABLE_CHECKS
from refresh_assets.settings import SettingsError

PACKAGE = Path(__file__).parent.parent / "refresh_assets"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("PG", "REFRESH_", "DAGSTER_", "LEARN_", "OPENLINEAGE_")):
            monkeypatch.delenv(name)


def asset(name: str) -> dg.AssetNode:
    return build_defs().get_repository_def().asset_graph.get(dg.AssetKey(name))


def window(name: str) -> TimeWindowFreshnessPolicy:
    policy = asset(name).freshness_policy
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    return policy


def sources(name: str) -> list[Any]:
    value = asset(name).metadata["dagster/code_references"]
    assert isinstance(value, dg.CodeReferencesMetadataValue)
    return list(value.code_references)


def test_a_table_must_be_verified_within_eight_days_and_warns_some_hours_after_the_weekly_run() -> None:
    policy = window("datasets_table")
    assert policy.fail_window.to_timedelta() == timedelta(days=8)
    assert policy.warn_window is not None
    assert timedelta(days=7) < policy.warn_window.to_timedelta() < timedelta(days=7, hours=6)


def test_the_setting_moves_both_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_MAX_AGE", "30")
    policy = window("datasets_table")
    assert policy.fail_window.to_timedelta() == timedelta(days=30)
    assert policy.warn_window is not None
    assert policy.warn_window.to_timedelta() == timedelta(days=27)


def test_a_limit_below_what_dagster_takes_is_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_MAX_AGE", "0.0001")
    assert window("datasets_table").fail_window.to_timedelta() == timedelta(minutes=1)


def test_files_and_the_manifest_have_no_limit_of_their_own() -> None:
    assert [asset(name).freshness_policy for name in ("manifest", "datasets_csv")] == [None, None]


def test_everything_that_is_ours_has_an_owner_and_a_description_of_what_to_do() -> None:
    assert {name: list(asset(name).owners) for name in ("manifest", "datasets_csv", "datasets_table")} == {
        "manifest": ["team:data"],
        "datasets_csv": ["team:data"],
        "datasets_table": ["team:data"],
    }
    for name in ("datasets_csv", "datasets_table"):
        assert "**If it is red**" in asset(name).description
    assert (
        "rows are kept whose `license` is one of the setting `REFRESH_LICENSES`" in asset("datasets_table").description
    )


def test_the_source_is_the_declaration_and_the_code_on_this_machine() -> None:
    declaration, code = sources("datasets_table")
    assert Path(declaration.file_path) == PACKAGE / "defs" / "datasets" / "defs.yaml"
    assert Path(code.file_path) == PACKAGE / "published" / "assets.py"


def test_the_source_is_in_the_repository_where_its_address_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_SOURCE_URL", "https://git.example.org/data/refresh/src/branch/main/")
    base = "https://git.example.org/data/refresh/src/branch/main/refresh_assets"
    declaration, code = (reference.url for reference in sources("datasets_table"))
    assert declaration.startswith(f"{base}/defs/datasets/defs.yaml")
    assert code == f"{base}/published/assets.py"


@pytest.mark.parametrize("url", ["git.example.org/refresh", "ftp://example.org/x", "https://me:s3cret@example.org/x"])
def test_an_unusable_source_address_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("REFRESH_SOURCE_URL", url)
    with pytest.raises(SettingsError, match="REFRESH_SOURCE_URL must be") as caught:
        build_defs()
    assert url not in str(caught.value)


def test_columns_say_what_they_hold_and_what_they_are_made_from() -> None:
    columns = {
        column.name: column.description for column in asset("datasets_table").metadata["dagster/column_schema"].columns
    }
    assert columns["doi"] == "Digital object identifier, where it has one. ← datasets.csv: doi"
    published = asset("datasets_csv").metadata["dagster/column_schema"].columns
    assert [column.name for column in published] == ["dataset_key", "title", "publisher", "doi", "license"]


def test_every_check_says_what_it_promises_and_what_to_do() -> None:
    for check in (*FILE_CHECKS, *TABLE_CHECKS):
        assert check.promise.endswith("."), check
        assert check.advice.endswith("."), check
        assert check.description == f"{check.promise} If it fails: {check.advice}"


def test_the_job_and_its_schedule_are_described_and_tagged() -> None:
    repository = build_defs().get_repository_def()
    job, schedule = repository.get_job("weekly_refresh"), repository.get_schedule_def("weekly_refresh_schedule")
    assert job.tags["refresh/what"] == "published tables"
    assert schedule.tags["refresh/started_by"] == "schedule"
    assert "verified and left alone" in str(job.description)
    assert "Mondays at 04:17, time zone UTC (setting REFRESH_TIMEZONE)" in str(schedule.description)

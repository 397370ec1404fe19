"""The asset `activity_metrics` in Dagster: partitions, events, checks, schedule."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from refresh_assets.windows import desk as desk_module
from refresh_assets.windows.assets import METRICS
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.schedules import JOB_NAME, SCHEDULE, only_due_config
from refresh_assets_tests.windows_fixtures import WindowDesk, at, crowd, day


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def defs(windows: WindowDesk, database: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> dg.Definitions:
    for name, value in {**database, "REFRESH_HOME": str(tmp_path), "WINDOW_SOURCE": "table", "WINDOW_CRON": "0 0 * * *"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(desk_module, "read_source", lambda _env: windows.source)
    return windows_defs()


def run(defs: dg.Definitions, instance: dg.DagsterInstance, first: str, last: str, *, only_due: bool = False) -> Any:
    tags = {
        ASSET_PARTITION_RANGE_START_TAG: f"{first}T00:00+0000",
        ASSET_PARTITION_RANGE_END_TAG: f"{last}T00:00+0000",
    }
    return defs.resolve_job_def(JOB_NAME).execute_in_process(
        instance=instance, tags=tags, run_config=only_due_config() if only_due else None, raise_on_error=False
    )


def test_each_window_of_a_range_is_a_materialized_partition_of_one_run(windows: WindowDesk, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    windows.write(*crowd("2026-03-01T09:00Z", "oak", 9))
    result = run(defs, instance, "2026-03-01", "2026-03-04")
    assert result.success
    assert instance.get_materialized_partitions(METRICS) == {f"2026-03-0{n}T00:00+0000" for n in range(1, 5)}
    assert len(instance.get_runs()) == 1
    for e in result.all_events:
        print(e.event_type, e.partition, e.message)
    for e in result.get_asset_check_evaluations(): print(e.check_name, e.passed, e.description)
    status = instance.get_status_by_partition(METRICS, [f"2026-03-0{n}T00:00+0000" for n in range(1, 6)], windows_partitions(defs))
    print(status)
    assert 0

def windows_partitions(defs):
    return defs.resolve_asset_graph().get(METRICS).partitions_def

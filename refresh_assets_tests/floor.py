"""The definitions run in this process against an instance of their own: what tests of assets share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from refresh_assets.definitions import build_defs
from refresh_assets.published import assets
from refresh_assets_tests.shop import Shop, dataset_rows

TABLE = dg.AssetKey("datasets_table")
CSV = dg.AssetKey("datasets_csv")


class Floor:
    """The definitions, run in this process against an instance of their own."""

    def __init__(self, shop: Shop, instance: dg.DagsterInstance) -> None:
        self.shop, self.instance = shop, instance

    def run(
        self, *selection: dg.AssetKey, ops: dict[str, Any] | None = None, ok: bool = True
    ) -> dg.ExecuteInProcessResult:
        job = build_defs().resolve_job_def("weekly_refresh")
        result = job.execute_in_process(
            instance=self.instance,
            asset_selection=list(selection) or [assets.MANIFEST, CSV, TABLE],
            run_config={"ops": ops or {}},
            raise_on_error=False,
        )
        assert result.success is ok, [e.message for e in result.all_events if e.is_failure]
        return result

    def told(self, key: dg.AssetKey = TABLE) -> dict[str, Any]:
        """Return the metadata of an asset's last materialization."""
        event = self.instance.get_latest_materialization_event(key)
        assert event is not None
        assert event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}

    def version(self, key: dg.AssetKey = TABLE) -> str | None:
        event = self.instance.get_latest_materialization_event(key)
        tags = event.asset_materialization.tags if event and event.asset_materialization else None
        return tags["dagster/data_version"] if tags else None

    def is_stale(self) -> bool:
        """Tell whether the UI would call the table stale."""
        resolver = CachingStaleStatusResolver(
            instance=self.instance,
            asset_graph=build_defs().resolve_asset_graph(),
            loading_context=LoadingContextForTest(self.instance),
        )
        return resolver.get_status(TABLE) == StaleStatus.STALE


def verdicts(result: dg.ExecuteInProcessResult, key: dg.AssetKey = TABLE) -> dict[str, Any]:
    return {e.check_name: e for e in result.get_asset_check_evaluations() if e.asset_key == key}


def failed(result: dg.ExecuteInProcessResult) -> set[str]:
    return {e.check_name for e in result.get_asset_check_evaluations() if not e.passed}


def reason(result: dg.ExecuteInProcessResult) -> str:
    """Return the text at the bottom of the first failed step."""
    error = next(e.step_failure_data.error for e in result.all_events if e.is_step_failure)
    assert error is not None
    while error.cause is not None:
        error = error.cause
    return str(error.message)


@pytest.fixture
def floor(shop_here: Shop) -> Iterator[Floor]:
    shop_here.publish(dataset_rows(40, free=10))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Floor(shop_here, instance)

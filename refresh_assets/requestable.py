"""What a request can ask for, put together from the wings. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from refresh_assets.alerts.declared import Declared
from refresh_assets.published.assets import MANIFEST
from refresh_assets.published.schedules import JOB
from refresh_assets.requests.kinds import Kind, Plan
from refresh_assets.requests.tables import tables_kind
from refresh_assets.windows.assets import METRICS
from refresh_assets.windows.grid import parse, wished
from refresh_assets.windows.partitions import Partitions, partitions
from refresh_assets.windows.schedules import JOB_NAME
from refresh_assets.windows.settings import read_windows, windows_wanted
from refresh_assets.windows.window import WindowError

WINDOWS = "windows"
BOUNDS = frozenset(("since", "until"))


def kinds_of_requests(repository: dg.RepositoryDefinition) -> dict[str, Kind]:
    """Return the kinds of requests; the first one is meant where a request does not say."""
    nodes = {node.key.to_user_string(): node for node in repository.asset_graph.asset_nodes}
    filtered = {table: "filter" in nodes[f"{table}_table"].metadata for table in Declared(repository).files}
    kinds = [tables_kind(JOB, filtered, MANIFEST.to_user_string())]
    kinds.append(windows_kind(partitions(read_windows())) if windows_wanted() else Kind(WINDOWS, BOUNDS, _no_windows))
    return {kind.name: kind for kind in kinds}


def windows_kind(parts: Partitions) -> Kind:
    """Return the kind that loads the windows of a span of time: `since` and `until`, each with its time zone."""

    def plan(data: Mapping[str, Any], now: datetime) -> Plan:
        since, until = (_moment(name, data.get(name)) for name in ("since", "until"))
        windows = {str(window): window for window in wished(parts.grid, since, until, now).windows}

        def tags(left: Sequence[str]) -> Mapping[str, str]:
            # Those between that are loaded already are loaded again: one run has one unbroken row of partitions.
            loaded = [windows[name] for name in left]
            return {
                ASSET_PARTITION_RANGE_START_TAG: parts.key(min(loaded)),
                ASSET_PARTITION_RANGE_END_TAG: parts.key(max(loaded)),
            }

        return Plan(JOB_NAME, {name: (METRICS.to_user_string(),) for name in windows}, tags=tags)

    return Kind(WINDOWS, BOUNDS, plan)


def _no_windows(_data: Mapping[str, Any], _now: datetime) -> Plan:
    raise WindowError(
        "there are no windows, since WINDOW_SOURCE is not set where the sensor `requests` runs; set it there, start "
        "the daemon anew, and ask again"
    )


def _moment(name: str, given: object) -> datetime | None:
    if given is not None and not isinstance(given, str):
        raise WindowError(f"{name} must be a text such as 2026-03-02T04:15+00:00")
    return None if given is None else parse(name, given)

"""What a request can ask for, put together from the wings. Upper floor: imports dagster."""

from __future__ import annotations

import dagster as dg

from refresh_assets.alerts.declared import Declared
from refresh_assets.published.assets import MANIFEST
from refresh_assets.published.schedules import JOB
from refresh_assets.requests.kinds import Kind
from refresh_assets.requests.tables import tables_kind


def kinds_of_requests(repository: dg.RepositoryDefinition) -> dict[str, Kind]:
    """Return the kinds of requests; the first one is meant where a request does not say."""
    nodes = {node.key.to_user_string(): node for node in repository.asset_graph.asset_nodes}
    filtered = {table: "filter" in nodes[f"{table}_table"].metadata for table in Declared(repository).files}
    kinds = [tables_kind(JOB, filtered, MANIFEST.to_user_string())]
    return {kind.name: kind for kind in kinds}

"""The declared tables, and when each was last found equal to what is published. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

import dagster as dg

TABLE = "_table"
_PARTS = (TABLE, "_csv")
_VERIFIED = ("loaded", "unchanged")
_PAGE, _PAGES = 100, 20


@dataclass(frozen=True)
class Declared:
    """The tables of a repository that are kept equal to a published file, and what refreshes them."""

    repository: dg.RepositoryDefinition

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The published file of each table, in alphabetical order of the tables."""
        nodes = [node for node in self.repository.asset_graph.asset_nodes if "table" in node.kinds]
        found = {node.key.to_user_string(): node.metadata.get("file") for node in nodes}
        return {name.removesuffix(TABLE): str(file) for name, file in sorted(found.items()) if file is not None}

    def table_of(self, name: str) -> str | None:
        """Return the table that an asset or a step belongs to, and to no other."""
        tables = (name.removesuffix(suffix) for suffix in _PARTS if name.endswith(suffix))
        return next((table for table in tables if table in self.files), None)

    def touched(self, run: dg.DagsterRun) -> list[str]:
        """Return the tables that a run was to refresh."""
        keys = run.asset_selection
        if keys is None:
            keys = self._keys_of_job(run.job_name)
        return [table for table in self.files if key_of(table) in keys]

    def schedules(self, table: str) -> Sequence[str]:
        """Return the names of the schedules that refresh a table."""
        schedules = self.repository.schedule_defs
        return [x.name for x in schedules if key_of(table) in self._keys_of_job(x.job_name)]

    def _keys_of_job(self, job: str) -> frozenset[dg.AssetKey]:
        if not self.repository.has_job(job):
            return frozenset()
        return frozenset(self.repository.get_job(job).asset_layer.executable_asset_keys)


@dataclass(frozen=True)
class Verification:
    """When a table was last found equal to what is published, and by which run."""

    at: datetime
    run_id: str


def key_of(table: str) -> dg.AssetKey:
    return dg.AssetKey(f"{table}{TABLE}")


def verification(instance: dg.DagsterInstance, table: str) -> Verification | None:
    """Return the last materialization of a table by which it was verified."""
    cursor, limit = None, 1
    for _page in range(_PAGES):
        found = instance.fetch_materializations(key_of(table), limit=limit, cursor=cursor)
        for record in found.records:
            if verifies(record.event_log_entry.asset_materialization):
                return Verification(instant_of(record.timestamp), record.run_id)
        if not found.has_more:
            return None
        cursor, limit = found.cursor, _PAGE
    return None


def verifies(materialization: dg.AssetMaterialization | None) -> bool:
    """Tell whether a run compared the table with what is published, and did not just meet another refresh's lock."""
    outcome = materialization.metadata.get("outcome") if materialization else None
    return outcome is not None and outcome.value in _VERIFIED


def instant_of(timestamp: float) -> datetime:
    """Return the instant of one of Dagster's timestamps."""
    return datetime.fromtimestamp(timestamp, timezone.utc)

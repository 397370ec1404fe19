"""The declared tables, and when each was last found equal to what is published. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

import dagster as dg

from refresh_assets.alerts.trouble import COMMAND
from refresh_assets.published.files import ASKED_AT

TABLE = "_table"
_PARTS = (TABLE, "_csv")
LOADED = "loaded"
_VERIFIED = (LOADED, "unchanged")
_PAGE, _PAGES = 100, 20


@dataclass(frozen=True)
class Declared:
    """The tables of a repository that are kept equal to a published file, and what refreshes them."""

    repository: dg.RepositoryDefinition
    location: str | None = None
    """The name of the repository's code location, where it is known."""

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
        keys = self._keys_of(run)
        return [table for table in self.files if key_of(table) in keys]

    def asset_of(self, run: dg.DagsterRun) -> dg.AssetKey | None:
        """Return the asset that a run was to materialize, None where there are none or several."""
        keys = self._keys_of(run)
        return next(iter(keys)) if len(keys) == 1 else None

    def command_of(self, key: dg.AssetKey) -> str:
        """Return the command line that refreshes an asset, where it names one."""
        graph = self.repository.asset_graph
        return str(graph.get(key).metadata.get(COMMAND, "")) if graph.has(key) else ""

    def schedules(self, table: str) -> Sequence[str]:
        """Return the names of the schedules that refresh a table."""
        schedules = self.repository.schedule_defs
        return [x.name for x in schedules if key_of(table) in self._keys_of_job(x.job_name)]

    def _keys_of(self, run: dg.DagsterRun) -> AbstractSet[dg.AssetKey]:
        if run.asset_selection is not None:
            return run.asset_selection
        # Another team's job may have the same name.
        return self._keys_of_job(run.job_name) if self._is_here(run) else frozenset()

    def _is_here(self, run: dg.DagsterRun) -> bool:
        origin = run.remote_job_origin
        return self.location is None or origin is None or origin.location_name == self.location

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
            materialization = record.event_log_entry.asset_materialization
            if verifies(materialization):
                return Verification(_verified_at(materialization, record.timestamp), record.run_id)
        if not found.has_more:
            return None
        cursor, limit = found.cursor, _PAGE
    return None


def _verified_at(materialization: dg.AssetMaterialization | None, timestamp: float) -> datetime:
    """Return when the publisher was asked, for a run of the table alone asks nobody; else when the run told it."""
    asked = materialization.metadata.get(ASKED_AT) if materialization else None
    if not isinstance(asked, dg.TimestampMetadataValue):
        return instant_of(timestamp)
    return instant_of(min(asked.value, timestamp))


def verifies(materialization: dg.AssetMaterialization | None) -> bool:
    """Tell whether a run compared the table with what is published, and did not just meet another refresh's lock."""
    return outcome_of(materialization) in _VERIFIED


def outcome_of(told: dg.AssetMaterialization | dg.AssetObservation | None) -> str | None:
    """Return what a run did to a table or a window, None where it does not say so."""
    outcome = told.metadata.get("outcome") if told else None
    return str(outcome.value) if outcome is not None else None


def outcomes(events: Iterable[dg.DagsterEvent], tables: Iterable[str]) -> dict[str, str]:
    """Return what a run did to each of these tables that it came to, by its events."""
    by_key = {key_of(table): table for table in tables}
    found: dict[str, str] = {}
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key in by_key:
            outcome = outcome_of(event.step_materialization_data.materialization)
            if outcome is not None:
                found[by_key[event.asset_key]] = outcome
    return found


def instant_of(timestamp: float) -> datetime:
    """Return the instant of one of Dagster's timestamps."""
    return datetime.fromtimestamp(timestamp, timezone.utc)

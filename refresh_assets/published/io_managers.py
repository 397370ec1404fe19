"""How assets hand over to each other; a table is stored by the locked replace. Upper floor: imports dagster."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime, timezone
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    extract_data_provenance_from_entry,
    extract_data_version_from_entry,
)
from pydantic import PrivateAttr

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published.files import ASKED_AT, PublishedFile, cache_of, checked
from refresh_assets.published.progress import Progress
from refresh_assets.published.publisher.manifest import Manifest
from refresh_assets.published.story import Story
from refresh_assets.published.table.fence import Fence, open_fence
from refresh_assets.published.table.glance import glance
from refresh_assets.published.table.load import Load, Result
from refresh_assets.published.table.replace import replace
from refresh_assets.secrets import masking
from refresh_assets.settings import Settings, read_settings
from refresh_assets.telling import telling


@dataclass
class Refresh:
    """A load on its way into the table; the IO manager adds what came of it.

    `file` is the asset of the file, `fetch_seconds` the time that fetching it took in this run.
    """

    load: Load
    settings: Settings
    file: dg.AssetKey
    fetch_seconds: float | None = None
    result: Result | None = None


class ManifestIOManager(dg.ConfigurableIOManager):
    """Hands the manifest over within a run; a step that runs without it gets None and fetches it itself."""

    _manifests: dict[str, Manifest] = PrivateAttr(default_factory=dict)

    def handle_output(self, context: dg.OutputContext, obj: Manifest) -> None:
        self._manifests[context.run_id] = obj

    def load_input(self, context: dg.InputContext) -> Manifest | None:
        upstream = context.upstream_output
        return self._manifests.get(upstream.run_id) if upstream is not None else None


class PublishedFileIOManager(dg.ConfigurableIOManager):
    """Hands a verified file over within a run; the bytes stay in the cache, under their sha256."""

    _files: dict[tuple[str, dg.AssetKey], PublishedFile] = PrivateAttr(default_factory=dict)

    def handle_output(self, context: dg.OutputContext, obj: PublishedFile) -> None:
        self._files[context.run_id, context.asset_key] = obj

    def load_input(self, context: dg.InputContext) -> PublishedFile:
        """Return the file of this run, or of the last materialization where this run fetched none.

        Raises RefreshError where it is not in the cache.
        """
        upstream = context.upstream_output
        # Another run may have fetched another file since.
        own = self._files.get((upstream.run_id, context.asset_key)) if upstream is not None else None
        if own is not None:
            return own
        asset = context.asset_key.to_user_string()
        told = _last_metadata(context)
        sha256 = told.get("sha256")
        if sha256 is None:
            raise RefreshError(f"no file was ever fetched; materialize `{asset}` first")
        with masking():
            cached = cache_of(read_settings()).get(str(sha256.value))
            if cached is None:
                raise RefreshError(
                    f"the file of the last materialization (sha256 {sha256.value}) is not in the cache of this host; "
                    f"materialize `{asset}` again"
                )
            instead_of, asked = told.get("instead_of"), told.get(ASKED_AT)
            return replaced(
                checked(cached, cached.name),
                instead_of=instead_of.value if instead_of else None,
                asked_at=datetime.fromtimestamp(asked.value, timezone.utc) if asked else None,
            )


class TableIOManager(dg.IOManager):
    """Stores a file as a table: the locked replace, in one transaction, which has to pass the fence of its run."""

    def __init__(self, fence: Fence = open_fence) -> None:
        self._fence = fence

    def handle_output(self, context: dg.OutputContext, obj: Refresh) -> None:
        """Replace the table's rows. Raises what `replace` raises; then nothing has changed."""
        run, settings = context.step_context.dagster_run, obj.settings
        load = replaced(obj.load, guard=self._fence(run.run_id, run.tags, obj.load.table.name))
        size = load.layout.bytes - load.layout.data_offset
        progress = Progress(f"{load.table.file}: staged", context.log.info, size, load.rows)
        with (
            telling(context.log, load.table.name),
            masking(),
            connect(settings.postgres, f"refresh-assets {load.table.name}") as conn,
        ):
            obj.result = replace(
                conn,
                load,
                lock_seconds=settings.lock_timeout,
                statement_seconds=settings.statement_timeout,
                progress=progress,
            )
            seen = glance(conn, load.schema, load.table)
        context.log.info("%s: %s", load.table.name, obj.result.message)
        earlier = _last_metadata(context)
        story = Story(load, obj.result, seen, settings.postgres, obj.file, obj.fetch_seconds, earlier)
        context.add_output_metadata(story.metadata())
        if obj.result.outcome == "locked":
            _keep_versions(context)
        else:
            context.step_context.set_data_version(context.asset_key, dg.DataVersion(obj.result.job_key))

    def load_input(self, context: dg.InputContext) -> Any:
        raise RefreshError(f"{context.asset_key.to_user_string()} is a table of the database: read it with SQL")


def _keep_versions(context: dg.OutputContext) -> None:
    """Let a run that met the lock claim no more than the last materialization did: neither its version nor its inputs.

    Otherwise the UI would call a table fresh that was not compared with the new file.
    """
    step, key = context.step_context, context.asset_key
    record = step.instance.get_latest_data_version_record(key)
    entry = record.event_log_entry if record else None
    version = extract_data_version_from_entry(entry) if entry else None
    step.set_data_version(key, version or dg.DataVersion("not verified yet"))
    provenance = extract_data_provenance_from_entry(entry) if entry else None
    for upstream in step.job_def.asset_layer.get(key).parent_keys:
        used = step.maybe_fetch_and_get_input_asset_version_info(upstream)
        if used is not None:
            used.data_version = provenance.input_data_versions.get(upstream) if provenance else None


def _last_metadata(context: dg.InputContext | dg.OutputContext) -> Any:
    """Return the metadata of the asset's last materialization, empty where there is none."""
    instance = context.instance if isinstance(context, dg.InputContext) else context.step_context.instance
    event = instance.get_latest_materialization_event(context.asset_key)
    materialization = event.asset_materialization if event else None
    return materialization.metadata if materialization else {}

"""The assets of a declared table and the manifest they all start from. Upper floor: imports dagster."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect
from refresh_assets.published import metadata
from refresh_assets.published.checks import FILE_CHECKS, TABLE_CHECKS, check_specs, file_results, table_results
from refresh_assets.published.choice import Wish, choose
from refresh_assets.published.config import FileConfig, TableConfig
from refresh_assets.published.describe import file_description, table_description
from refresh_assets.published.files import PublishedFile, publisher_of
from refresh_assets.published.io_managers import Refresh
from refresh_assets.published.progress import Progress
from refresh_assets.published.publisher.manifest import MANIFEST as MANIFEST_FILE
from refresh_assets.published.publisher.manifest import Manifest
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.load import Load
from refresh_assets.secrets import masking
from refresh_assets.settings import read_list, read_settings
from refresh_assets.telling import telling

GROUP = "published"
PUBLISHER = dg.AssetKey("publisher")
MANIFEST = dg.AssetKey("manifest")


def publisher_asset(base: str) -> dg.AssetSpec:
    """Return the external asset that stands for what others publish; `base` is its address without credentials."""
    return dg.AssetSpec(
        PUBLISHER,
        group_name=GROUP,
        kinds={"http"} if base.startswith("http") else {"file"},
        description="The publisher's folder: a manifest with the sha256 and the number of rows of each file, and the "
        "files. Others write it, we read it.",
        metadata={"dagster/uri": dg.MetadataValue.url(base)},
    )


@dg.asset(
    key=MANIFEST,
    deps=[PUBLISHER],
    group_name=GROUP,
    kinds={"json"},
    io_manager_key="manifest_io",
    description="The publisher's list of files with their sha256 and number of rows, as it is now.",
)
def manifest(context: dg.AssetExecutionContext) -> dg.Output[Manifest]:
    """Fetch the manifest."""
    with telling(context.log, MANIFEST_FILE), masking():
        settings = read_settings()
        fetched = publisher_of(settings).manifest()
        context.log.info("fetched %s with %d files", settings.base.address(MANIFEST_FILE), len(fetched.names))
        return dg.Output(
            fetched,
            metadata=metadata.of_manifest(fetched, settings.base),
            data_version=dg.DataVersion(fetched.sha256),
        )


def table_assets(table: Table) -> list[dg.AssetsDefinition]:
    """Return `<name>_csv` and `<name>_table`."""
    return [_csv_asset(table), _table_asset(table)]


def _csv_asset(table: Table) -> dg.AssetsDefinition:
    key = dg.AssetKey(f"{table.name}_csv")

    @dg.asset(
        key=key,
        ins={"manifest": dg.AssetIn(MANIFEST)},
        group_name=GROUP,
        kinds={"csv"},
        owners=table.owners,
        io_manager_key="published_file_io",
        check_specs=check_specs(key, FILE_CHECKS),
        description=file_description(table),
        metadata=metadata.of_published_columns(table),
    )
    def csv(context: dg.AssetExecutionContext, config: FileConfig, manifest: Manifest | None) -> Iterator[Any]:
        with telling(context.log, table.file), masking():
            settings = read_settings()
            progress = Progress(f"{table.file}: downloaded", context.log.info)
            choice = choose(settings, table.file, Wish(config.sha256, config.published), manifest, progress)
        file = choice.file
        if choice.fetched is not None and choice.fetched.manifest is not None:
            context.log.info("%s was fetched anew", MANIFEST_FILE)
        if file.instead_of is not None:
            context.log.info("%s: %s stays in place of the published %s", table.file, file.sha256, file.instead_of)
        yield dg.Output(
            file,
            metadata=metadata.of_file(choice, settings.base),
            data_version=dg.DataVersion(file.sha256),
        )
        yield from file_results(key, file, table)

    return csv


def _table_asset(table: Table) -> dg.AssetsDefinition:
    key, file_key = dg.AssetKey(f"{table.name}_table"), dg.AssetKey(f"{table.name}_csv")

    @dg.asset(
        key=key,
        ins={"file": dg.AssetIn(file_key)},
        group_name=GROUP,
        kinds={"postgres", "table"},
        owners=table.owners,
        io_manager_key="table_io",
        code_version=f"transform {table.transform_version}, schema {table.schema_version}",
        check_specs=check_specs(key, TABLE_CHECKS),
        description=table_description(table),
        metadata=metadata.of_declaration(table),
    )
    def database_table(context: dg.AssetExecutionContext, config: TableConfig, file: PublishedFile) -> Iterator[Any]:
        with telling(context.log, table.name), masking():
            settings = read_settings()
            load = Load(
                table=table,
                schema=settings.schema,
                path=file.path,
                layout=file.layout,
                sha256=file.sha256,
                rows=file.rows,
                allowed=allowed_values(table, config.allowed),
                accept_shrink=config.accept_shrink,
                run_id=context.run.run_id,
                instead_of=file.instead_of,
                asked_at=file.asked_at,
            )
            refresh = Refresh(load, settings, file_key, file.fetch_seconds)
        yield dg.Output(refresh)
        # The IO manager has done its work when the generator goes on.
        with masking(), connect(settings.postgres, "refresh-assets checks") as conn:
            results = table_results(conn, key, refresh)
        yield from results

    return database_table


def allowed_values(table: Table, override: list[str] | None) -> tuple[str, ...] | None:
    """Return the values that the table's filter keeps in this run, None without a filter.

    Raises RefreshError where a run gives values for a table without a filter, SettingsError where there are none.
    """
    if table.filter is None:
        if override:
            raise RefreshError(f"table {table.name!r} has no filter, so `allowed` cannot be given")
        return None
    if override is not None:
        values = tuple(sorted({value.strip() for value in override} - {""}))
        if not values:
            raise RefreshError("`allowed` lists no value")
        return values
    return read_list(table.filter.setting) if table.filter.setting else table.filter.values

"""The Dagster definitions, wired from the parts; nothing else happens here."""

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import dagster as dg

from refresh_assets import defs as declared
from refresh_assets.alerts.collect_trouble import lasting, once
from refresh_assets.alerts.executor import alive_executor
from refresh_assets.alerts.limits import usable_interval, usable_limits
from refresh_assets.alerts.sensors import failure_mail
from refresh_assets.published.assets import manifest, publisher_asset
from refresh_assets.published.component import PublishedTable
from refresh_assets.published.io_managers import ManifestIOManager, PublishedFileIOManager, TableIOManager
from refresh_assets.published.openlineage import lineage_to_elsewhere
from refresh_assets.published.presented import presented
from refresh_assets.published.schedules import weekly_refresh, weekly_schedule
from refresh_assets.published.table.declaration import DeclarationError, Table
from refresh_assets.requestable import kinds_of_requests
from refresh_assets.requests.fence import fence
from refresh_assets.requests.runs import kept_alive
from refresh_assets.requests.sensors import requests_sensor
from refresh_assets.requests.settings import usable_request_interval
from refresh_assets.requests.told import failed_requests
from refresh_assets.settings import read_base, read_source_url, read_timezone
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.overdue import overdue_windows


def build_defs(**overrides: Any) -> dg.Definitions:
    """Return a fresh house; `overrides` replace resources by name."""
    _hush()
    resources: dict[str, Any] = {
        "manifest_io": ManifestIOManager(),
        "published_file_io": PublishedFileIOManager(),
        "table_io": TableIOManager(fence),
    }
    windows = windows_defs(fence=fence)
    own = dg.Definitions(
        assets=[publisher_asset(read_base().url), manifest],
        jobs=[weekly_refresh],
        schedules=[weekly_schedule(read_timezone())],
        sensors=[
            failure_mail(usable_interval(), [lasting("window", overdue_windows), once("request", failed_requests)]),
            requests_sensor(usable_request_interval(), [weekly_refresh, *(windows.jobs or ())], kinds_of_requests),
        ],
        resources={**resources, **overrides},
        executor=alive_executor(kept_alive),
    )
    whole = presented(dg.Definitions.merge(own, declared_tables()), usable_limits().max_age, read_source_url())
    return dg.Definitions.merge(whole, windows, lineage_to_elsewhere())


def declarations() -> list[Table]:
    """Return the tables that the defs.yaml files declare. Raises DeclarationError."""
    tree = _tree()
    declared_tables(tree)
    return [component.declared for component in tree.get_all_components(PublishedTable)]


def _hush() -> None:
    for category in (dg.BetaWarning, dg.PreviewWarning):
        # Said of Dagster's own functions on every start; the locked version is the one that is tested.
        warnings.filterwarnings("ignore", category=category)


def _tree() -> dg.ComponentTree:
    _hush()
    return dg.ComponentTree.from_module(declared, project_root=Path(__file__).parent.parent)


def declared_tables(tree: dg.ComponentTree | None = None) -> dg.Definitions:
    """Return what the defs.yaml files declare. Raises DeclarationError, which names the table and the field."""
    try:
        tables = (tree or _tree()).build_defs()
    except Exception as error:
        # Dagster draws the tree of all declarations; the cause at the bottom says what is wrong.
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise DeclarationError(f"refresh_assets/defs: {cause}") from error
    by_file: dict[str, list[str]] = defaultdict(list)
    for asset in tables.assets or ():
        for spec in asset.specs if isinstance(asset, dg.AssetsDefinition) else ():
            if "file" in spec.metadata:
                by_file[str(spec.metadata["file"])].append(spec.key.to_user_string())
    for file, owners in by_file.items():
        if len(owners) > 1:
            raise DeclarationError(
                f"file {file!r} is declared by {' and '.join(sorted(owners))}; the state of a refresh is kept by file, "
                "so each file feeds one table (a view can show it in another shape)"
            )
    return tables


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()

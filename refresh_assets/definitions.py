"""The Dagster definitions, wired from the parts; nothing else happens here."""

import warnings
from pathlib import Path
from typing import Any

import dagster as dg

from refresh_assets import defs as declared
from refresh_assets.published.assets import manifest, publisher_asset
from refresh_assets.published.io_managers import ManifestIOManager, PublishedFileIOManager, TableIOManager
from refresh_assets.published.schedules import weekly_refresh, weekly_schedule
from refresh_assets.settings import read_base, read_timezone


def build_defs(**overrides: Any) -> dg.Definitions:
    """Return a fresh house; `overrides` replace resources by name."""
    for category in (dg.BetaWarning, dg.PreviewWarning):
        # Said of Dagster's own functions on every start; the locked version is the one that is tested.
        warnings.filterwarnings("ignore", category=category)
    resources: dict[str, Any] = {
        "manifest_io": ManifestIOManager(),
        "published_file_io": PublishedFileIOManager(),
        "table_io": TableIOManager(),
    }
    own = dg.Definitions(
        assets=[publisher_asset(read_base().url), manifest],
        jobs=[weekly_refresh],
        schedules=[weekly_schedule(read_timezone())],
        resources={**resources, **overrides},
        executor=dg.in_process_executor,
    )
    tree = dg.ComponentTree.from_module(declared, project_root=Path(__file__).parent.parent)
    return dg.Definitions.merge(own, tree.build_defs())


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()

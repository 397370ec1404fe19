"""The Dagster definitions, wired from the parts; nothing else happens here."""

from pathlib import Path
from typing import Any

import dagster as dg

from refresh_assets import defs as declared
from refresh_assets.alerts.collect_trouble import lasting, once
from refresh_assets.alerts.executor import alive_executor
from refresh_assets.alerts.limits import usable_interval, usable_limits
from refresh_assets.alerts.sensors import failure_mail
from refresh_assets.published.assets import manifest, publisher_asset
from refresh_assets.published.declared import Declarations, hush
from refresh_assets.published.io_managers import ManifestIOManager, PublishedFileIOManager, TableIOManager
from refresh_assets.published.openlineage import lineage_to_elsewhere
from refresh_assets.published.presented import presented
from refresh_assets.published.schedules import weekly_refresh, weekly_schedule
from refresh_assets.published.table.declaration import Table
from refresh_assets.requestable import kinds_of_requests
from refresh_assets.requests.fence import fence
from refresh_assets.requests.runs import kept_alive
from refresh_assets.requests.sensors import requests_sensor
from refresh_assets.requests.settings import usable_request_interval
from refresh_assets.requests.told import failed_requests
from refresh_assets.settings import read_base, read_source_url, read_timezone
from refresh_assets.windows.definitions import windows_defs
from refresh_assets.windows.overdue import overdue_windows

DECLARED = Declarations(declared, Path(__file__).parent.parent)


def build_defs(**overrides: Any) -> dg.Definitions:
    """Return a fresh house; `overrides` replace resources by name."""
    hush()
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
    whole = presented(dg.Definitions.merge(own, DECLARED.definitions()), usable_limits().max_age, read_source_url())
    return dg.Definitions.merge(whole, windows, lineage_to_elsewhere())


def declarations() -> list[Table]:
    """Return the tables that the defs.yaml files declare. Raises DeclarationError."""
    hush()
    return DECLARED.tables()


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()

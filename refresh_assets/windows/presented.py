"""What the UI shows beside the metrics: owners, how fresh they must be, their source. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path

import dagster as dg

from refresh_assets.code_references import code_references
from refresh_assets.cron import CronTicks
from refresh_assets.freshness import fresh_within
from refresh_assets.settings import Env, read_source_url
from refresh_assets.windows import assets
from refresh_assets.windows.clock_changes import clock_changes
from refresh_assets.windows.settings import read_max_delay, read_owners

_CODE = Path(assets.__file__).resolve()


def presented(metrics: dg.AssetsDefinition, grid: CronTicks, env: Env) -> dg.AssetsDefinition:
    """Return the asset with owners, links to its code, and a limit to the age of its newest window.

    Raises SettingsError.
    """
    owners, source_url = read_owners(env), read_source_url(env)
    policy = freshness(longest_window(grid, datetime.now(timezone.utc).date().year), read_max_delay(env))

    def dressed(spec: dg.AssetSpec) -> dg.AssetSpec:
        spec = spec.replace_attributes(owners=owners)
        spec = spec.merge_attributes(metadata={"dagster/code_references": code_references(spec, _CODE, source_url)})
        fresh: dg.AssetSpec = dg.apply_freshness_policy(spec, policy)
        return fresh

    return metrics.map_asset_specs(dressed)


def freshness(longest: timedelta, delay: timedelta) -> dg.FreshnessPolicy:
    """Return the policy that some window was loaded within the longest one and the delay that is borne.

    Dagster looks at the newest materialization, whichever window it is of. Its policy on a cron wants that within a
    fixed span before each tick, which windows of a weekend do not keep.
    """
    return fresh_within(longest + delay, longest + delay / 2)


@lru_cache(maxsize=16)
def longest_window(grid: CronTicks, year: int) -> timedelta:
    """Return the length of the longest window of a year, as far as samples of it tell."""
    return max(grid.next(moment) - grid.last(moment) for moment in _samples(grid, year))


def _samples(grid: CronTicks, year: int) -> Iterator[datetime]:
    """Yield moments of which each window of five hours or more of a week has one, and each of a week or more of a year.

    Those of a cron that goes by weekdays are alike in all weeks but those in which clocks are changed.
    """
    # Crons tick at whole minutes.
    begin = datetime(year, 1, 1, 0, 0, 30, tzinfo=timezone.utc)
    yield from (begin + number * timedelta(hours=5) for number in range(36))
    yield from (change - timedelta(seconds=30) for change in clock_changes(grid.timezone, year))
    if grid.cron.split()[2:4] != ["*", "*"]:
        yield from (begin + number * timedelta(weeks=1) for number in range(53))

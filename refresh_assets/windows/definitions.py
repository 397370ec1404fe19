"""The windows' part of the definitions; empty where no event log is set. Upper floor: imports dagster."""

from __future__ import annotations

import os

import dagster as dg

from refresh_assets.published.table.fence import Fence, open_fence
from refresh_assets.settings import Env
from refresh_assets.windows.assets import METRICS, event_log_asset, metrics_asset
from refresh_assets.windows.partitions import partitions
from refresh_assets.windows.presented import presented
from refresh_assets.windows.schedules import late_events_sensor, windows_job, windows_schedule
from refresh_assets.windows.settings import read_windows, windows_wanted


def windows_defs(env: Env = os.environ, fence: Fence = open_fence) -> dg.Definitions:
    """Return asset, job, schedule and sensor of the windows. Raises SettingsError where a setting is unusable."""
    if not windows_wanted(env):
        return dg.Definitions()
    parts = partitions(read_windows(env))
    job = windows_job()
    return dg.Definitions(
        assets=[event_log_asset(env["WINDOW_SOURCE"].strip()), presented(metrics_asset(parts, fence), parts.grid, env)],
        jobs=[job],
        schedules=[windows_schedule(parts, job)],
        sensors=[late_events_sensor(parts, METRICS)],
    )

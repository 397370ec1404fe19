"""What a run is called in a mail: by its tables, never by a name that Dagster made. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.remote_representation.code_location import is_implicit_asset_job_name
from dagster._core.storage.tags import (
    BACKFILL_ID_TAG,
    PARTITION_NAME_TAG,
    RETRY_NUMBER_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
)

from refresh_assets.alerts.owner import OWNER_TAG
from refresh_assets.alerts.text import counted, listed
from refresh_assets.recorded import STARTED_BY_TAG


def about_run(run: dg.DagsterRun, tables: Sequence[str]) -> str:
    """Return what a run is about: these tables, else its job; of a materialization by hand the chosen assets."""
    if tables:
        return listed(tables)
    if not is_implicit_asset_job_name(run.job_name):
        return run.job_name
    return listed(_assets(run)) or "a materialization"


def units_of(run: dg.DagsterRun, tables: Sequence[str]) -> list[str]:
    """Return the things of which each fails or works by itself: the tables, else the chosen assets, else the job."""
    if tables:
        return [f"table {table}" for table in tables]
    if run.asset_selection:
        return [f"asset {key}" for key in _assets(run)]
    return [f"job {run.job_name}"]


def named_run(run: dg.DagsterRun) -> str:
    """Return a run's job, its number as the UI shows it, its partition, and who started it."""
    tags = run.tags
    job = "" if is_implicit_asset_job_name(run.job_name) else f"job {run.job_name}, "
    partition = f", partition {tags[PARTITION_NAME_TAG]}" if PARTITION_NAME_TAG in tags else ""
    return f"{job}run {run.run_id[:8]}{partition}, started by {started_by(run)}{_tried(run)}"


def started_by(run: dg.DagsterRun) -> str:
    """Say who or what started a run."""
    tags = run.tags
    if OWNER_TAG in tags:
        return f"the request {tags[OWNER_TAG]}"
    if SCHEDULE_NAME_TAG in tags:
        return f"the schedule {tags[SCHEDULE_NAME_TAG]}"
    if SENSOR_NAME_TAG in tags:
        return f"the sensor {tags[SENSOR_NAME_TAG]}"
    if BACKFILL_ID_TAG in tags:
        return f"the backfill {tags[BACKFILL_ID_TAG]}"
    return "the command line" if STARTED_BY_TAG in tags or run.remote_job_origin is None else "hand"


def _tried(run: dg.DagsterRun) -> str:
    retries = run.tags.get(RETRY_NUMBER_TAG, "")
    return f", after {counted(int(retries), 'automatic retry')}" if retries.isdecimal() and int(retries) else ""


def _assets(run: dg.DagsterRun) -> list[str]:
    checks = {check.asset_key for check in run.asset_check_selection or ()}
    return sorted(key.to_user_string() for key in run.asset_selection or checks)

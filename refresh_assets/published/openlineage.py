"""Lineage sent on to an OpenLineage endpoint, where one is set, by the library for it. Upper floor: imports dagster."""

from __future__ import annotations

import os

import dagster as dg

from refresh_assets.settings import Env, read, sends_lineage

EVERY_SECONDS = 30
# A whole run of many tables, so that no event is left between two looks: the library asks for the newest ones.
RECORDS = 1000


def lineage_to_elsewhere(env: Env = os.environ) -> dg.Definitions:
    """Return the sensor that sends lineage; nothing where OPENLINEAGE_URL is not set.

    Raises SettingsError where it is set and the extra is not installed.
    """
    if not read(sends_lineage, env):
        return dg.Definitions()
    # Sets up its client when it is imported.
    from dagster_openlineage import openlineage_sensor

    library = openlineage_sensor(record_filter_limit=RECORDS, include_asset_events=True)
    sensor = dg.SensorDefinition(
        name="openlineage",
        # Theirs is off until somebody turns it on in the UI.
        evaluation_fn=library._raw_fn,  # noqa: SLF001
        minimum_interval_seconds=EVERY_SECONDS,
        description="Sends what was materialized, its columns and their lineage, and the checks, to OPENLINEAGE_URL.",
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    return dg.Definitions(sensors=[sensor])

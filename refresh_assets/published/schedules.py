"""The weekly job over all declared tables, and when it runs. Upper floor: imports dagster."""

from __future__ import annotations

import dagster as dg

from refresh_assets.published.assets import GROUP

JOB = "weekly_refresh"
CRON = "17 4 * * 1"

weekly_refresh = dg.define_asset_job(
    JOB,
    selection=dg.AssetSelection.groups(GROUP),
    description="Fetches the manifest and every declared file, and makes each table equal to its file. A table that is "
    "equal already is verified and left alone. One bad file does not hold up the other tables.",
    tags={"refresh/what": "published tables"},
)


def weekly_schedule(timezone: str) -> dg.ScheduleDefinition:
    """Return the schedule in a time zone; after a stop its latest missed slot is caught up."""
    return dg.ScheduleDefinition(
        name="weekly_refresh_schedule",
        job=weekly_refresh,
        cron_schedule=CRON,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Refreshes every published table, Mondays at 04:17, time zone {timezone} (setting "
        "REFRESH_TIMEZONE). A slot that was missed while everything was down is caught up once.",
        tags={"refresh/started_by": "schedule"},
    )

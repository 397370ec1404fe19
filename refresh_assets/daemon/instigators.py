"""The states of schedules and sensors in Dagster's storage, made whole. Upper floor: imports dagster.

Dagster writes a new state into two tables by two statements, each committed by itself. Where a process dies between
them the first row stays alone: from then on Dagster finds no state, cannot add one, and the schedule never ticks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster._core.scheduler.instigation import InstigatorState
from dagster._serdes import deserialize_value, serialize_value
from dagster_postgres.schedule_storage import PostgresScheduleStorage

from refresh_assets.postgres.queries import queries

if TYPE_CHECKING:
    import dagster as dg

_STATES = queries("refresh_assets.daemon", "sql/instigators.sql")


def complete_states(instance: dg.DagsterInstance) -> list[str]:
    """Write what is missing of the states that were half written; return the names of those schedules and sensors.

    Raises sqlalchemy.exc.SQLAlchemyError.
    """
    storage = instance.schedule_storage
    if not isinstance(storage, PostgresScheduleStorage):
        return []
    completed = []
    with storage.connect() as conn:
        bodies = conn.exec_driver_sql(_STATES["never_updated"].as_string(None)).scalars().all()
        for state in (deserialize_value(body, InstigatorState) for body in bodies):
            values = {
                "selector": state.selector_id,
                "repository": state.repository_selector_id,
                "status": state.status.value,
                "type": state.instigator_type.value,
                "body": serialize_value(state),
            }
            if conn.exec_driver_sql(_STATES["complete"].as_string(None), values).rowcount:
                completed.append(state.name)
    return completed

"""How things stand, asked of Dagster's storage and the database, without any daemon. Upper floor: imports dagster."""

from __future__ import annotations

import os
from datetime import datetime

import dagster as dg

from refresh_assets.alerts.declared import Declared, instant_of, verification
from refresh_assets.alerts.due_windows import due_windows
from refresh_assets.alerts.limits import read_limits
from refresh_assets.alerts.loads import last_loads
from refresh_assets.alerts.memory import Memory
from refresh_assets.alerts.outbox import connect_outbox, owed
from refresh_assets.alerts.overdue import ages
from refresh_assets.alerts.settings import read_alerts
from refresh_assets.alerts.status import Status, TableStatus
from refresh_assets.alerts.windows import WindowsStatus
from refresh_assets.settings import Env, read_timezone


def standing(instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, env: Env = os.environ) -> Status:
    """Return how things stand. Raises SettingsError, and RefreshError where a database cannot be reached."""
    declared = Declared(repository)
    mail = read_alerts(env) is not None
    verified = {table: verification(instance, table) for table in declared.files}
    verified_at = {table: found.at for table, found in verified.items() if found is not None}
    loads = last_loads(declared.files, env) or {}
    with connect_outbox(env) as conn:
        memory = Memory(conn)
        now = memory.now()
        windows = due_windows(now, env)
        found = ages(memory, declared.files, verified_at, read_limits(env).max_age)
        return Status(
            now=now,
            tables=[TableStatus(age, loads.get(age.table)) for age in found],
            owed=owed(conn),
            mail=mail,
            daemon_beat_at=_daemon_beat(instance),
            timezone=read_timezone(env),
            windows=WindowsStatus(now, windows, read_timezone(env)) if windows else None,
        )


def _daemon_beat(instance: dg.DagsterInstance) -> datetime | None:
    beats = [beat.timestamp for beat in instance.get_daemon_heartbeats().values()]
    return instant_of(max(beats)) if beats else None

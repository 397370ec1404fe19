"""How the daemons stand, asked of the register and of Dagster's storage. Upper floor: imports dagster."""

from __future__ import annotations

import os
from datetime import datetime, timezone

import dagster as dg

from refresh_assets.alerts.storage import connect_storage
from refresh_assets.daemon.register import exists, last_term, participants
from refresh_assets.daemon.status import Daemons, Tick
from refresh_assets.settings import Env, read_timezone


def daemons(instance: dg.DagsterInstance, now: datetime, env: Env = os.environ) -> Daemons:
    """Return who takes part at `now` by the database's clock. Raises SettingsError, RefreshError and psycopg.Error."""
    # Whoever only looks need not have the right to create.
    with connect_storage(env) as conn:
        found, term = (participants(conn), last_term(conn)) if exists(conn) else ([], None)
    return Daemons(now, found, term, _last_tick(instance), read_timezone(env))


def _last_tick(instance: dg.DagsterInstance) -> Tick | None:
    found = [
        tick
        for state in instance.all_instigator_state()
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    ]
    if not found:
        return None
    newest = max(found, key=lambda tick: tick.timestamp)
    return Tick(newest.instigator_name, datetime.fromtimestamp(newest.timestamp, timezone.utc))

"""How the daemons stand, asked of the register and of Dagster's storage. Upper floor: imports dagster."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg

from refresh_assets.alerts.storage import connect_storage
from refresh_assets.daemon.register import exists, last_term, participants
from refresh_assets.daemon.status import Daemons, Tick
from refresh_assets.instance import prepare_home
from refresh_assets.settings import Env, read_timezone


def daemons(now: datetime, env: Env = os.environ) -> Daemons:
    """Return who takes part at `now` by the database's clock; creates nothing.

    Raises SettingsError, RefreshError and psycopg.Error.
    """
    with connect_storage(env, "refresh-assets status") as conn:
        if not exists(conn):
            return Daemons(now, [], None, None, read_timezone(env))
        found, term = participants(conn), last_term(conn)
    with tempfile.TemporaryDirectory(prefix="refresh-assets-") as folder:
        home = env.get("DAGSTER_HOME", "").strip() or str(prepare_home(Path(folder)))
        with dg.DagsterInstance.from_config(home) as instance:
            return Daemons(now, found, term, last_tick(instance), read_timezone(env))


def last_tick(instance: dg.DagsterInstance) -> Tick | None:
    """Return the newest tick of all schedules and sensors."""
    found = [
        tick
        for state in instance.all_instigator_state()
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
    ]
    if not found:
        return None
    newest = max(found, key=lambda tick: tick.timestamp)
    return Tick(newest.instigator_name, datetime.fromtimestamp(newest.timestamp, timezone.utc))

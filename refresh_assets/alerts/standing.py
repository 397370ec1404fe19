"""How things stand, asked of Dagster's storage and the database without any daemon, and without changing anything.

Upper floor: imports dagster.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
from psycopg import sql

from refresh_assets.alerts.declared import Declared, instant_of, verification
from refresh_assets.alerts.limits import usable_limits
from refresh_assets.alerts.loads import last_loads
from refresh_assets.alerts.memory import Memory
from refresh_assets.alerts.outbox import Owed, owed
from refresh_assets.alerts.overdue import WATCHED, Age
from refresh_assets.alerts.problems import alert_problems
from refresh_assets.alerts.settings import usable_mail
from refresh_assets.alerts.status import Status, TableStatus
from refresh_assets.alerts.storage import connect_storage
from refresh_assets.instance import prepare_home
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.settings import Env, read_timezone

_STANDING = queries("refresh_assets.alerts", "sql/standing.sql")


class _Present(NamedTuple):
    """Which tables are there at all."""

    events: bool
    outbox: bool
    memory: bool
    now: datetime


def standing(repository: dg.RepositoryDefinition, env: Env = os.environ) -> Status:
    """Return how things stand. Raises SettingsError, and RefreshError where a database cannot be reached."""
    declared = Declared(repository)
    with connect_storage(env, "refresh-assets status") as conn:
        conn.execute(_STANDING["read_only"])
        present = _present(conn, env)
        with _storage(env) if present.events else contextlib.nullcontext() as instance:
            verified = {table: verification(instance, table) for table in declared.files} if instance else {}
            beat_at = _daemon_beat(instance) if instance else None
        loads = last_loads(declared.files, env)
        memory = Memory(conn)
        seen = memory.spells(WATCHED) if present.memory else {}
        limit = usable_limits(env).max_age
        tables = []
        for table in declared.files:
            found, load = verified.get(table), (loads or {}).get(table)
            verified_at = found.at if found else load.loaded_at if load else None
            tables.append(TableStatus(Age(table, verified_at, seen.get(table), limit), load))
        return Status(
            now=present.now,
            tables=tables,
            loads_known=loads is not None,
            owed=owed(conn) if present.outbox else Owed(0, None, None),
            mail=usable_mail(env)[0] is not None,
            problems=alert_problems(env),
            looked_at=memory.noted("look") if present.memory else None,
            daemon_beat_at=beat_at,
            timezone=read_timezone(env),
        )


def _present(conn: Connection, env: Env) -> _Present:
    # Elsewhere Dagster's tables are where its URL leads, not in a schema of our choice.
    events = "event_logs" if env.get("DAGSTER_POSTGRES_URL", "").strip() else "dagster.event_logs"
    row: Any = conn.execute(_STANDING["present"].format(events=sql.Literal(events))).fetchone()
    return _Present(*row)


@contextlib.contextmanager
def _storage(env: Env) -> Iterator[dg.DagsterInstance]:
    """Open Dagster's storage, whose tables are there, without leaving a folder behind."""
    with tempfile.TemporaryDirectory(prefix="refresh-assets-") as folder:
        home = env.get("DAGSTER_HOME", "").strip() or str(prepare_home(Path(folder)))
        with dg.DagsterInstance.from_config(home) as instance:
            yield instance


def _daemon_beat(instance: dg.DagsterInstance) -> datetime | None:
    beats = [beat.timestamp for beat in instance.get_daemon_heartbeats().values()]
    return instant_of(max(beats)) if beats else None

"""One look of the failure sensor: what every collector is given. Upper floor: imports dagster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

import dagster as dg

from refresh_assets.alerts.declared import Declared, Verification, instant_of, key_of, verification
from refresh_assets.alerts.heartbeat import host_name
from refresh_assets.alerts.limits import Limits, usable_limits
from refresh_assets.alerts.loads import LastLoad, last_loads
from refresh_assets.alerts.memory import Memory
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.settings import ui_url_of
from refresh_assets.alerts.text import Facts, failure_text, holds, instant
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.settings import Env, Reader, read_timezone

# What happened longer before the very first look than this is history.
FIRST_LOOK_BACK = timedelta(hours=24)
# So far the clocks of hosts may be apart.
FAST = timedelta(minutes=5)
_AHEAD = "verified ahead of time"


class LookFailedError(RefreshError):
    """Something could not be looked for. The rest was, mail was sent, and the failure itself is told by mail."""


@dataclass
class Look:
    """`now` is by the database's clock, `since` when the first look began to look; `deadline` by time.monotonic()."""

    instance: dg.DagsterInstance
    conn: Connection
    declared: Declared
    env: Env
    deadline: float
    memory: Memory = field(init=False)
    limits: Limits = field(init=False)
    now: datetime = field(init=False)
    since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.conn)
        self.memory.create()
        self.limits = usable_limits(self.env)
        self.now = self.memory.now()
        since = self.memory.noted("since")
        # A clock that was wrong at the first look must not make history of what happens after it was put right.
        if since is None or since > self.now - FIRST_LOOK_BACK:
            since = self.now - FIRST_LOOK_BACK
            self.memory.note("since", since)
        self.since = since

    @property
    def out_of_time(self) -> bool:
        """Whether what is left to do should be left to the next look."""
        return time.monotonic() > self.deadline

    @cached_property
    def verified(self) -> Mapping[str, Verification]:
        """When each table was last verified, where it ever was."""
        looked = ((table, verification(self.instance, table)) for table in self.declared.files)
        found = {table: verified for table, verified in looked if verified}
        runs = {verified.run_id for verified in found.values()}
        self.memory.end(_AHEAD, [run_id for run_id in self.memory.spells(_AHEAD) if run_id not in runs])
        return {table: self._dated(verified) for table, verified in found.items()}

    def alert(self, event_key: str, kind: str, facts: Facts) -> Alert:
        """Put facts into words, with the time zone and this host."""
        complete = Facts(**{**vars(facts), "timezone": self.timezone, "host": facts.host or host_name()})
        return Alert(event_key, kind, facts.about, *failure_text(complete, self.env))

    def state_of(self, tables: Sequence[str], since: datetime | None = None) -> str:
        """Say what tables hold, as far as that is known, and that they still do where it is from before `since`."""
        if self._loads is None or not tables:
            return ""
        states = {table: self._state(self._loads.get(table), since) for table in tables}
        return "; ".join(f"{table} {state}" if len(states) > 1 else state for table, state in states.items())

    def last_verified(self, tables: Sequence[str]) -> datetime | None:
        """Return since when all of these tables are unverified, where that is known of all of them."""
        instants = [self.verified[table].at for table in tables if table in self.verified]
        return min(instants) if instants and len(instants) == len(tables) else None

    def run_url(self, run_id: str) -> str:
        return f"{self._ui}/runs/{run_id}" if self._ui else ""

    def asset_url(self, tables: Sequence[str]) -> str:
        """Return the address of a table's page in the UI; of several tables there is none."""
        return self.page_of(key_of(tables[0])) if len(tables) == 1 else ""

    def page_of(self, key: dg.AssetKey) -> str:
        """Return the address of an asset's page in the UI."""
        return f"{self._ui}/assets/{key.to_user_string()}" if self._ui else ""

    def last_materialized(self, key: dg.AssetKey) -> str:
        """Say when an asset was last materialized, where it ever was."""
        event = self.instance.get_latest_materialization_event(key)
        return f"last materialized {instant(instant_of(event.timestamp), self.timezone)}" if event else ""

    def loaded_at(self, table: str) -> datetime | None:
        """Return when a table was last loaded, where that is known."""
        load = (self._loads or {}).get(table)
        return load.loaded_at if load else None

    def _dated(self, verified: Verification) -> Verification:
        """Date what a host with a fast clock verified by when it was first seen: none is verified in the future."""
        if verified.at <= self.now + FAST:
            return verified
        return replace(verified, at=self.memory.begin(_AHEAD, verified.run_id, self.now))

    @cached_property
    def timezone(self) -> str:
        return read_timezone(self.env)

    @cached_property
    def _ui(self) -> str | None:
        return ui_url_of(Reader(self.env))

    @cached_property
    def _loads(self) -> Mapping[str, LastLoad] | None:
        return last_loads(self.declared.files, self.env)

    def _state(self, load: LastLoad | None, since: datetime | None) -> str:
        if load is None:
            return "was never loaded by this product"
        still = since is not None and load.loaded_at < since
        return holds(load.loaded_at, load.rows, self.timezone, still=still)

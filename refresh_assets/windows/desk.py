"""What a load of windows needs, put together from the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.settings import Env, Settings, read_settings
from refresh_assets.windows import session
from refresh_assets.windows.due import Plan
from refresh_assets.windows.grid import Grid
from refresh_assets.windows.settings import read_min_cell, read_windows
from refresh_assets.windows.source import EventSource
from refresh_assets.windows.source_settings import required_kind
from refresh_assets.windows.sources import read_source


@dataclass(frozen=True)
class Desk:
    """The settings, the event log, and the plan by which its windows are kept up."""

    settings: Settings
    plan: Plan
    source: EventSource
    min_cell: int

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Give a session on the database of the metrics, prepared for them. Raises RefreshError."""
        with connect(self.settings.postgres, "refresh-assets windows") as conn:
            session.prepare(
                conn,
                lock_seconds=self.settings.lock_timeout,
                statement_seconds=self.settings.statement_timeout,
            )
            yield conn


def open_desk(grid: Grid, env: Env = os.environ) -> Desk:
    """Read all settings of the windows. Raises SettingsError."""
    settings = read_settings(env)
    return Desk(settings, read_plan(settings, grid, env), read_source(env), read_min_cell(env))


def read_plan(settings: Settings, grid: Grid, env: Env = os.environ) -> Plan:
    """Return by which plan the windows of this grid are kept up. Raises SettingsError."""
    windows = read_windows(env)
    return Plan(settings.schema, grid, required_kind(env), windows.bootstrap, windows.late)

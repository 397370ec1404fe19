"""The event log that the settings choose."""

from __future__ import annotations

import os

from refresh_assets.settings import Env, SettingsError, read_home
from refresh_assets.windows.moodle import MoodleLog
from refresh_assets.windows.sample import SampleLog
from refresh_assets.windows.source import EventSource
from refresh_assets.windows.source_settings import read_kind, read_logs, read_moodle
from refresh_assets.windows.tracking_logs import TrackingLogs


def read_source(env: Env = os.environ) -> EventSource:
    """Return the event log. Raises SettingsError that names what is missing or unusable."""
    kind = read_kind(env)
    if kind == "moodle":
        return MoodleLog(read_moodle(env))
    if kind == "openedx":
        return TrackingLogs(read_logs(env))
    if kind == "sample":
        return SampleLog(read_home(env))
    raise SettingsError("not set in this environment: WINDOW_SOURCE")

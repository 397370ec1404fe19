"""The event log that the settings choose."""

from __future__ import annotations

import os

from refresh_assets.settings import Env, read_home
from refresh_assets.windows.moodle import MoodleLog
from refresh_assets.windows.sample import SampleLog
from refresh_assets.windows.source import EventSource
from refresh_assets.windows.source_settings import read_logs, read_moodle, required_kind
from refresh_assets.windows.tracking_logs import TrackingLogs


def read_source(env: Env = os.environ) -> EventSource:
    """Return the event log. Raises SettingsError that names what is missing or unusable."""
    kind = required_kind(env)
    if kind == "moodle":
        return MoodleLog(read_moodle(env))
    if kind == "openedx":
        return TrackingLogs(read_logs(env))
    return SampleLog(read_home(env))

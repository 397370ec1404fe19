"""The settings of the daemon."""

from __future__ import annotations

import os

from refresh_assets.settings import Env, Reader


def read_drain(env: Env = os.environ) -> float:
    """Return the seconds that a stopping daemon waits for running refreshes. Raises SettingsError."""
    reader = Reader(env)
    seconds = reader.seconds("REFRESH_STOP_TIMEOUT")
    reader.done()
    return seconds

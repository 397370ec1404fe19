"""The settings of the daemon."""

from __future__ import annotations

import os

from refresh_assets.settings import Env, Reader, read


def read_drain(env: Env = os.environ) -> float:
    """Return the seconds that a stopping daemon waits for running refreshes. Raises SettingsError."""
    return read(drain_of, env)


def drain_of(reader: Reader) -> float:
    """Return these seconds; what is wrong with the setting is left with the reader."""
    return reader.seconds("REFRESH_STOP_TIMEOUT")

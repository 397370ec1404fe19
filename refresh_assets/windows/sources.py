"""Placeholder until merged."""

from refresh_assets.settings import Env
from refresh_assets.windows.source import EventSource


def read_source(env: Env) -> EventSource:
    raise NotImplementedError

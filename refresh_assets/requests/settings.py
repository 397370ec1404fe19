"""The settings of requests: where their table is, how often they are looked at and tried again."""

from __future__ import annotations

import os
from dataclasses import dataclass

from refresh_assets.settings import Env, Reader, read

DEFAULT_SCHEMA = "refresh_requests"
# The delay before each further attempt, as a multiple of the one before, and the longest one in seconds.
GROWTH = 4.0
LONGEST_DELAY = 3600.0
_LONGEST_NAME = 63
_MOST_ATTEMPTS = 100
_OTHERS = ("information_schema", "dagster", "refresh_alerts", "refresh_daemon")


@dataclass(frozen=True)
class RequestSettings:
    """`attempts` at one request, `delay` in seconds before the second one, `interval` in seconds between two looks."""

    schema: str = DEFAULT_SCHEMA
    attempts: int = 5
    delay: float = 60.0
    interval: int = 10


def read_requests(env: Env = os.environ) -> RequestSettings:
    """Return the settings of requests. Raises SettingsError."""
    return read(requests_of, env)


def requests_of(reader: Reader) -> RequestSettings:
    """Return these settings; what is wrong with one is left with the reader, and its default is taken."""
    default = RequestSettings()
    settings = RequestSettings(
        schema=reader.parsed(
            "REFRESH_REQUESTS_SCHEMA",
            _schema,
            "a schema's name of at most 63 bytes that is nobody else's",
            default.schema,
        ),
        attempts=reader.parsed("REFRESH_REQUEST_ATTEMPTS", _attempts, "a whole number from 1 to 100", default.attempts),
        delay=reader.parsed("REFRESH_REQUEST_RETRY", _delay, "a number of seconds from 0.001 to 3600", default.delay),
        interval=_interval(reader),
    )
    if settings.schema == reader.text("REFRESH_SCHEMA"):
        reader.wrong.append("REFRESH_REQUESTS_SCHEMA must not be REFRESH_SCHEMA")
    return settings


def usable_request_interval(env: Env = os.environ) -> int:
    """Return the seconds between two looks, or their default where the setting is unusable: each look then says so."""
    return _interval(Reader(env))


def _interval(reader: Reader) -> int:
    most = "a number of seconds from 1 to 600"
    return reader.parsed("REFRESH_REQUEST_INTERVAL", _pause, most, RequestSettings.interval)


def _pause(text: str) -> int:
    return round(_within(text, 1, 600))


def _delay(text: str) -> float:
    return _within(text, 0.001, LONGEST_DELAY)


def _within(text: str, least: float, most: float) -> float:
    number = float(text)
    if not least <= number <= most:
        raise ValueError
    return number


def _schema(name: str) -> str:
    if len(name.encode()) > _LONGEST_NAME or not name.isprintable() or name.startswith("pg_") or name in _OTHERS:
        raise ValueError
    return name


def _attempts(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= number <= _MOST_ATTEMPTS:
        raise ValueError
    return number

"""Reads the environment variables that `environment.py` lists.

Values are read at the moment they are needed, never at import, and are never part of an error text:
a problem is told by the setting's name.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from platformdirs import site_data_path, user_data_path

from refresh_assets.base_url import BaseUrl
from refresh_assets.environment import SETTINGS
from refresh_assets.errors import RefreshError

T = TypeVar("T")
# As filter values of a file are trimmed: a no-break space belongs to the value.
BLANKS = " \t\n\r\f\v"
Env = Mapping[str, str]


# To Postgres less than a millisecond means no limit, and its longest one is 24.8 days.
_MIN_SECONDS, _MAX_SECONDS = 0.001, 2_000_000.0
_SECONDS = "a number of seconds from 0.001 to 2000000"
_BY_NAME = {setting.name: setting for setting in SETTINGS}


class SettingsError(RefreshError):
    """One or more settings are missing or unusable; the text names all of them and no value."""


@dataclass(frozen=True)
class PostgresSettings:
    """Where the tables are; given to the driver as keywords."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = field(repr=False)


@dataclass(frozen=True)
class Settings:
    """All settings of a refresh, checked. Times are seconds, sizes bytes."""

    postgres: PostgresSettings
    base: BaseUrl
    schema: str
    http_timeout: float
    lock_timeout: float
    statement_timeout: float
    timezone: str
    home: Path
    cache_files: int
    cache_bytes: int


class Reader:
    """Reads settings one by one and gathers what is wrong, so that `done` tells all of it at once."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.missing: list[str] = []
        self.wrong: list[str] = []

    def text(self, name: str) -> str:
        """Return the value, or the default where it is unset or blank."""
        value = self.env.get(name, "")
        return value if value.strip() else _BY_NAME[name].default or ""

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            self.missing.append(name)
        return value

    def parsed(self, name: str, parse: Callable[[str], T], what: str, fallback: T) -> T:
        value = self.text(name)
        if not value:
            return fallback
        try:
            return parse(value.strip())
        except (ValueError, KeyError, OSError):
            self.wrong.append(f"{name} must be {what}")
            return fallback

    def seconds(self, name: str) -> float:
        return self.parsed(name, _seconds, _SECONDS, _MAX_SECONDS)

    def count(self, name: str) -> int:
        return self.parsed(name, _count, "a whole number above 0", 1)

    def port(self, name: str) -> int | None:
        return self.parsed(name, _port, "a port number", 0) or None

    def list(self, name: str) -> None:
        try:
            read_list(name, self.env)
        except SettingsError as error:
            self.wrong.append(str(error))

    @property
    def problems(self) -> Sequence[str]:
        """What is missing, in one text, and what is wrong, a text each."""
        missing = ["not set in this environment: " + ", ".join(self.missing)] if self.missing else []
        return [*missing, *self.wrong]

    def done(self) -> None:
        """Raise SettingsError where anything is missing or wrong."""
        if self.problems:
            raise SettingsError("; ".join(self.problems))


def read(part: Callable[[Reader], T], env: Env) -> T:
    """Return what `part` reads by a reader of these settings. Raises SettingsError for all that is wrong with it."""
    reader = Reader(env)
    found = part(reader)
    reader.done()
    return found


def read_settings(env: Env = os.environ) -> Settings:
    """Return all settings.

    Raises SettingsError that names every missing and every unusable one.
    """
    return read(settings_of, env)


def settings_of(reader: Reader) -> Settings:
    """Return all settings of a refresh; where the reader has problems, they are not to be used."""
    settings = Settings(
        postgres=_postgres(reader),
        base=_base(reader),
        schema=_schema(reader),
        http_timeout=reader.seconds("REFRESH_HTTP_TIMEOUT"),
        lock_timeout=reader.seconds("REFRESH_LOCK_TIMEOUT"),
        statement_timeout=reader.seconds("REFRESH_STATEMENT_TIMEOUT"),
        timezone=_timezone(reader),
        home=_home(reader),
        cache_files=reader.count("REFRESH_CACHE_FILES"),
        cache_bytes=reader.count("REFRESH_CACHE_BYTES"),
    )
    reader.list("REFRESH_LICENSES")
    return settings


def read_postgres(env: Env = os.environ) -> PostgresSettings:
    """Return the settings of the database alone. Raises SettingsError."""
    return read(_postgres, env)


def read_timezone(env: Env = os.environ) -> str:
    """Return the time zone of the schedules. Raises SettingsError."""
    return read(_timezone, env)


def read_base(env: Env = os.environ) -> BaseUrl:
    """Return the publisher's address alone. Raises SettingsError."""
    return read(_base, env)


def read_source_url(env: Env = os.environ) -> str | None:
    """Return the address of the source code's tree, without credentials in it. Raises SettingsError."""
    return read(source_url_of, env)


def source_url_of(reader: Reader) -> str | None:
    """Return that address; what is wrong with it is left with the reader."""
    return reader.parsed("REFRESH_SOURCE_URL", _web_address, "an http or https address without a password", "") or None


def sends_lineage(reader: Reader) -> bool:
    """Tell whether lineage goes to an OpenLineage endpoint; that there is no library for it is left with the reader."""
    wanted = bool(reader.text("OPENLINEAGE_URL"))
    if wanted and find_spec("dagster_openlineage") is None:
        reader.wrong.append(
            "OPENLINEAGE_URL is set and the library for it is not installed: "
            "pip install 'refresh-assets[openlineage]', or unset it"
        )
    return wanted


def read_home(env: Env = os.environ) -> Path:
    """Return the product's folder, absolute; it need not exist. Raises SettingsError."""
    return read(_home, env)


def read_list(name: str, env: Env = os.environ) -> tuple[str, ...]:
    """Return a comma-separated setting, trimmed, without empty items and repetitions, sorted.

    Raises SettingsError where nothing is left of it, or where it is unset and has no default.
    """
    setting = _BY_NAME.get(name)
    raw = env.get(name)
    if raw is None and setting is not None:
        raw = setting.default
    if raw is None:
        raise SettingsError(f"not set in this environment: {name}")
    if not raw.isascii() and any("\ud800" <= c <= "\udfff" for c in raw):
        # The operating system hands over bytes that are not UTF-8 as lone surrogates.
        raise SettingsError(f"{name} must be UTF-8")
    items = tuple(sorted({item.strip(BLANKS) for item in raw.split(",")} - {""}))
    if not items:
        raise SettingsError(f"{name} lists no value; unset it for its default or name at least one")
    return items


def has_postgres_settings(env: Env = os.environ) -> bool:
    """Tell whether any PG* setting points at a server, so that none may be started in its place."""
    return any(
        env.get(name, "").strip() for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE")
    )


def _postgres(reader: Reader) -> PostgresSettings:
    postgres = PostgresSettings(
        host=reader.required("PGHOST"),
        port=reader.port("PGPORT") or 0 if reader.required("PGPORT") else 0,
        user=reader.required("PGUSER"),
        database=reader.required("PGDATABASE"),
        password=reader.env.get("PGPASSWORD") or None,
    )
    if postgres.password is None:
        problem = _password_file_problem(reader.env)
        if problem is not None:
            reader.missing.append("PGPASSWORD or a password file" + problem)
    return postgres


def _password_file_problem(env: Env) -> str | None:
    """Say why no password file can be used, as an addition to its name in the list, or None where one can."""
    named = env.get("PGPASSFILE")
    path = Path(named) if named else default_password_file(env)
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except OSError:
        return " (the file that PGPASSFILE names does not exist)" if named else ""
    if not stat.S_ISREG(mode) or not readable:
        return " (the password file cannot be read)"
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        return " (the password file is open to others, so Postgres ignores it; chmod 600)"
    return None


def default_password_file(env: Env = os.environ) -> Path:
    """Return where libpq looks for a password file when PGPASSFILE is not set.

    Source: PostgreSQL documentation, libpq, "The Password File".
    """
    if sys.platform == "win32":
        return Path(env.get("APPDATA", "")) / "postgresql" / "pgpass.conf"
    home = env.get("HOME")
    return (Path(home) if home else Path("~").expanduser()) / ".pgpass"


def _base(reader: Reader) -> BaseUrl:
    try:
        return BaseUrl.parse(reader.text("LEARN_BASE").strip())
    except ValueError as error:
        reader.wrong.append(f"LEARN_BASE {error}")
        return BaseUrl.parse("file:///")


def _schema(reader: Reader) -> str:
    schema = reader.text("REFRESH_SCHEMA")
    # Postgres cuts longer names in silence, and two schemas could become one.
    if len(schema.encode("utf-8", "surrogateescape")) > 63:  # noqa: PLR2004
        reader.wrong.append("REFRESH_SCHEMA must have at most 63 bytes")
    # The operating system hands over bytes that are not UTF-8 as lone surrogates, which no database takes.
    if not schema.isprintable():
        reader.wrong.append("REFRESH_SCHEMA must be printable UTF-8")
    if schema.startswith("pg_") or schema in ("information_schema", "dagster"):
        reader.wrong.append("REFRESH_SCHEMA must not be a schema of Postgres's or Dagster's own")
    return schema


def _timezone(reader: Reader) -> str:
    return reader.parsed(
        "REFRESH_TIMEZONE", lambda name: ZoneInfo(name).key, "an IANA time zone such as Europe/Berlin", "UTC"
    )


def _home(reader: Reader) -> Path:
    given = reader.env.get("REFRESH_HOME", "")
    if given.strip():
        return reader.parsed("REFRESH_HOME", _folder, "a folder of this machine", Path(given))
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    try:
        # Root's own folder is closed to the account that the embedded server runs under.
        return Path("/var/lib/refresh-assets") if root else user_data_path("refresh-assets").resolve()
    except RuntimeError:
        reader.missing.append("REFRESH_HOME (this account has no home folder)")
        return site_data_path("refresh-assets")


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser().resolve()
    except RuntimeError:
        # `~name` of an account that does not exist.
        raise ValueError from None


def _port(text: str) -> int:
    port = _count(text)
    if port > 65535:  # noqa: PLR2004
        raise ValueError
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise ValueError
    return seconds


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.password is not None:
        raise ValueError
    return text


def _count(text: str) -> int:
    # int() also takes signs, underscores and the digits of other scripts.
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ValueError
    return int(text)

"""The settings of the event log: which one, and where it is."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, cast
from urllib.parse import quote

from refresh_assets.base_url import BaseUrl
from refresh_assets.settings import Env, Reader, SettingsError, read, read_home, read_postgres

Kind = Literal["moodle", "openedx", "sample"]

KINDS: tuple[Kind, ...] = ("moodle", "openedx", "sample")
DEFAULT_PORT = 5432
_LONGEST_NAME = 63
_PLACE = "the absolute path of a folder or file, or an http, https or file URL of one"
# A name as it stands in SQL: bare, or in double quotes with those in it doubled.
_NAME = r'(?:[A-Za-z_\x80-\U0010ffff][\w$]*|"(?:[^"\x00]|"")+")'
_TABLE = re.compile(rf"({_NAME})(?:\.({_NAME}))?")


@dataclass(frozen=True)
class MoodleSettings:
    """The table of events, as (schema,) table; how to connect to its server; the accounts that many people share.

    `keywords` are libpq's, and hold the password; `where` names the database without it. Times are seconds.
    """

    table: tuple[str, ...]
    guests: tuple[int, ...]
    where: str
    statement_timeout: float
    lock_timeout: float
    keywords: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True)
class LogBase(BaseUrl):
    """The folder of the log files, or the one file, by a URL; nothing stands between it and a file's name."""

    is_folder: bool = True
    setting = "WINDOW_LOGS"

    def address(self, name: str) -> str:
        return f"{self.url}/{quote(name)}" if name else self.url + ("/" if self.is_folder else "")

    def path(self, name: str) -> Path:
        # The URL's own folder, below which the other kind of base has two more.
        return Path(*super().path("").parts[:-2], name)


@dataclass(frozen=True)
class LogSettings:
    """Where log files are, which of that folder's files are read, and the share of broken lines that is borne.

    `home` is where what is known of unchanged files is kept; `http_timeout` is in seconds, `max_bytes` of one file.
    """

    base: LogBase
    pattern: str
    broken_share: Decimal
    home: Path
    http_timeout: float
    max_bytes: int


def read_kind(env: Env = os.environ) -> Kind | None:
    """Return which event log is counted, or None where WINDOW_SOURCE is unset. Raises SettingsError."""
    return read(lambda reader: reader.parsed("WINDOW_SOURCE", _kind, "one of " + ", ".join(KINDS), None), env)


def required_kind(env: Env = os.environ) -> Kind:
    """Return which event log is counted. Raises SettingsError where it is none."""
    kind = read_kind(env)
    if kind is None:
        raise SettingsError("not set in this environment: WINDOW_SOURCE")
    return kind


def read_moodle(env: Env = os.environ) -> MoodleSettings:
    """Return the settings of a table in Moodle's layout. Raises SettingsError that names all that is wrong."""
    return read(_moodle, env)


def read_logs(env: Env = os.environ) -> LogSettings:
    """Return the settings of log files in Open edX's layout. Raises SettingsError that names all that is wrong."""
    return read(_logs, env)


def _moodle(reader: Reader) -> MoodleSettings:
    keywords = _keywords(reader)
    return MoodleSettings(
        table=reader.parsed("WINDOW_MOODLE_TABLE", _table, "the name of a table, with or without its schema", ("",)),
        guests=reader.parsed("WINDOW_MOODLE_GUESTS", _ids, "whole numbers with commas between them", ()),
        where=f"{keywords.get('dbname')!r} at {keywords.get('host')}:{keywords.get('port')}",
        statement_timeout=reader.seconds("REFRESH_STATEMENT_TIMEOUT"),
        lock_timeout=reader.seconds("REFRESH_LOCK_TIMEOUT"),
        keywords=keywords,
    )


def _logs(reader: Reader) -> LogSettings:
    nowhere = LogBase("file:///")
    given = reader.required("WINDOW_LOGS").strip()
    return LogSettings(
        base=reader.parsed("WINDOW_LOGS", _base, _PLACE, nowhere) if given else nowhere,
        pattern=reader.text("WINDOW_LOG_FILES").strip(),
        broken_share=reader.parsed("WINDOW_BROKEN_SHARE", _share, "a number from 0 to 1", Decimal("0.05")),
        home=read_home(reader.env),
        http_timeout=reader.seconds("REFRESH_HTTP_TIMEOUT"),
        max_bytes=reader.count("REFRESH_CACHE_BYTES"),
    )


def _keywords(reader: Reader) -> dict[str, object]:
    """Return what libpq needs for the event log's server. Our own password never goes to another server or role."""
    host = reader.text("WINDOW_PGHOST").strip()
    port = reader.port("WINDOW_PGPORT")
    user = reader.text("WINDOW_PGUSER").strip()
    database = reader.text("WINDOW_PGDATABASE").strip()
    if port and not host:
        reader.missing.append("WINDOW_PGHOST")
    if host:
        user, database = reader.required("WINDOW_PGUSER").strip(), reader.required("WINDOW_PGDATABASE").strip()
        keywords: dict[str, object] = {"host": host, "port": port or DEFAULT_PORT, "user": user, "dbname": database}
    else:
        ours = read_postgres(reader.env)
        keywords = {
            "host": ours.host,
            "port": ours.port,
            "user": user or ours.user,
            "dbname": database or ours.database,
        }
        if not user and not _has_password(reader):
            return {**keywords, "password": ours.password}
    if host or user:
        # What steers libpq towards our own server is not meant for this one.
        keywords |= {"hostaddr": "", "options": ""} if host else {"options": ""}
    return keywords | _password(reader)


def _has_password(reader: Reader) -> bool:
    return any(reader.env.get(name) for name in ("WINDOW_PGPASSWORD", "WINDOW_PGPASSFILE"))


def _password(reader: Reader) -> dict[str, object]:
    """Return the password, or the file in which libpq finds it; an empty one keeps libpq from PGPASSWORD."""
    password = reader.env.get("WINDOW_PGPASSWORD")
    if password:
        return {"password": password}
    file = reader.env.get("WINDOW_PGPASSFILE", "")
    if not file:
        reader.missing.append("WINDOW_PGPASSWORD or WINDOW_PGPASSFILE")
    elif not _is_private(Path(file)):
        reader.wrong.append("WINDOW_PGPASSFILE must be a file that can be read by this account alone (chmod 600)")
    return {"password": "", "passfile": file}


def _is_private(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
        readable = os.access(path, os.R_OK)
    except OSError:
        return False
    shared = sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISREG(mode) and readable and not shared


def _kind(text: str) -> Kind:
    if text.lower() not in KINDS:
        raise ValueError
    return cast("Kind", text.lower())


def _ids(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(item) for item in text.split(",") if item.strip()}))


def _share(text: str) -> Decimal:
    # As it is written: exactly the share is borne, which a binary fraction can miss.
    try:
        share = Decimal(text)
    except InvalidOperation:
        raise ValueError from None
    if not (share.is_finite() and 0 <= share <= 1):
        raise ValueError
    return share


def _table(text: str) -> tuple[str, ...]:
    """Take a table's name apart as SQL does: bare names are in lower case, quoted ones as they are."""
    found = _TABLE.fullmatch(text)
    if found is None:
        raise ValueError
    names = tuple(
        name[1:-1].replace('""', '"') if name.startswith('"') else name.lower() for name in found.groups() if name
    )
    if any(len(name.encode()) > _LONGEST_NAME for name in names):
        raise ValueError
    return names


def _base(text: str) -> LogBase:
    if "://" not in text:
        path = Path(text).expanduser()
        if not path.is_absolute():
            raise ValueError
        text = path.as_uri() + ("/" if path.is_dir() else "")
    base = LogBase.parse(text)
    folder = base.path("").is_dir() if base.is_file else text.endswith("/")
    return LogBase(base.url, base.username, base.password, folder)

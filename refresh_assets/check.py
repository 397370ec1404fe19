"""Is everything in place? Settings, database, publisher and mail, looked at one by one."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from refresh_assets.alerts.outbox import SCHEMA as OUTBOX_SCHEMA
from refresh_assets.alerts.outbox import TABLES as OUTBOX_TABLES
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.problems import read_all
from refresh_assets.alerts.settings import AlertSettings, read_alerts, ui_url_of
from refresh_assets.alerts.smtp import Mailer, send_now
from refresh_assets.alerts.storage import connect_storage
from refresh_assets.alerts.text import Facts, failure_text
from refresh_assets.daemon.register import SCHEMA as DAEMON_SCHEMA
from refresh_assets.daemon.register import TABLES as DAEMON_TABLES
from refresh_assets.daemon.settings import drain_of
from refresh_assets.errors import RefreshError
from refresh_assets.instance import prepare_home
from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.postgres.rights import CHANGE, lacking_rights, lacking_storage, may_stage
from refresh_assets.published.files import publisher_of
from refresh_assets.published.table.history import TABLES as OWN_TABLES
from refresh_assets.requests.settings import requests_of
from refresh_assets.requests.storage import TABLES as REQUEST_TABLES
from refresh_assets.secrets import mask, masked
from refresh_assets.settings import Reader, Settings, SettingsError, sends_lineage, settings_of, source_url_of
from refresh_assets.windows.desk import read_plan
from refresh_assets.windows.due import standing_of
from refresh_assets.windows.settings import read_windows, window_problems, windows_wanted
from refresh_assets.windows.sources import read_source
from refresh_assets.windows.state import TABLES as WINDOW_TABLES
from refresh_assets.windows.window import Window

OLDEST_SERVER = 130000
NO_MAIL = "not configured: nobody will be told of failures"
LATER = "not looked at, the settings come first"


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing; `ok` is None where there is nothing to check."""

    subject: str
    ok: bool | None
    text: str

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "--"}[self.ok]
        return f"{mark:<6} {self.subject}: {self.text}"


def findings(
    files: Mapping[str, str], env: Mapping[str, str] = os.environ, *, send_mail: bool = False
) -> Iterator[Finding]:
    """Look at one thing after the other; `files` are the declared files by table. A test mail is sent where wanted."""
    settings, problems = _settings(env)
    of_windows = window_problems(env)
    wrong = list(dict.fromkeys([*problems, *of_windows]))
    yield Finding("settings", not wrong, mask("; ".join(wrong), env) or "complete")
    if settings is None:
        yield from (Finding(subject, None, LATER) for subject in ("database", "publisher"))
    else:
        yield _tried("database", lambda: _database(settings, files, env), env)
        if env.get("DAGSTER_POSTGRES_URL", "").strip():
            yield _tried("storage", lambda: _other_storage(env), env)
        yield _tried("publisher", lambda: _publisher(settings, files), env)
        if of_windows:
            yield Finding("event log", None, LATER)
        elif windows_wanted(env):
            yield _tried("event log", lambda: _event_log(settings, env), env)
    yield _mail_finding(env, send=send_mail)


def _settings(env: Mapping[str, str]) -> tuple[Settings | None, list[str]]:
    """Return the settings of a refresh, where they can be used, and what is wrong with any setting at all."""
    reader = Reader(env)
    settings = settings_of(reader)
    usable = not reader.problems
    read_all(reader)
    requests_of(reader)
    source_url_of(reader)
    sends_lineage(reader)
    drain_of(reader)
    problems = list(reader.problems)
    if usable:
        try:
            prepare_home(settings.home)
        except RefreshError as error:
            return None, [*problems, str(error)]
    return (settings if usable else None), problems


def _mail_finding(env: Mapping[str, str], *, send: bool) -> Finding:
    def look() -> str:
        if settings is None:
            raise SettingsError(f"{NO_MAIL}; set SMTP_HOST and ALERT_TO")
        return _send_mail(settings, env) if send else _look_at_mail(settings, env)

    try:
        settings = read_alerts(env)
    except SettingsError:
        return Finding("mail", None, LATER)
    if settings is None and not send:
        return Finding("mail", None, NO_MAIL)
    return _tried("mail", look, env)


def _look_at_mail(settings: AlertSettings, env: Mapping[str, str]) -> str:
    return f"{Mailer(settings, env).look()}; from {settings.sender} to {', '.join(settings.recipients)}; none was sent"


def _send_mail(settings: AlertSettings, env: Mapping[str, str]) -> str:
    """Send a test mail and return the server's answer. Raises RefreshError where it is refused for a recipient."""
    facts = Facts(
        about="mail",
        happened="works",
        what="This is the test mail of `refresh-assets check --mail`. Failures will be told in this way.",
        run_url=ui_url_of(Reader(env)) or "",
        host=socket.gethostname(),
    )
    alert = Alert(f"check:{uuid.uuid4()}", "test", "mail", *failure_text(facts, env))
    answer = send_now(alert, settings, env)
    if answer.refused:
        reasons = ", ".join(f"{address} ({reason})" for address, reason in answer.refused.items())
        raise RefreshError(f"the test mail was refused for {reasons}; the server said: {answer.text}")
    return f"a test mail went to {', '.join(settings.recipients)}; the server said: {answer.text}"


def _tried(subject: str, look: Any, env: Mapping[str, str]) -> Finding:
    try:
        return Finding(subject, True, look())  # noqa: FBT003
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
        return Finding(subject, False, " ".join(masked(error, env).split()))  # noqa: FBT003


def _database(settings: Settings, files: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Return what the server is. Raises RefreshError where it is too old or does not let us work."""
    with connect(settings.postgres, "refresh-assets check") as conn:
        if conn.info.server_version < OLDEST_SERVER:
            raise RefreshError("the server is older than PostgreSQL 13; use a newer one")
        lacking = list(_lacking(conn, settings.schema, files, env))
        if lacking:
            raise RefreshError(f"role {settings.postgres.user!r} lacks " + ", ".join(lacking))
        postgres = settings.postgres
        return (
            f"PostgreSQL {conn.info.parameter_status('server_version')} at {postgres.host}:{postgres.port}, "
            f"database {postgres.database}, schema {settings.schema}"
        )


def _lacking(conn: Connection, schema: str, tables: Iterable[str], env: Mapping[str, str]) -> Iterator[str]:
    needed = {**dict.fromkeys(tables, CHANGE), **OWN_TABLES}
    if windows_wanted(env):
        needed |= dict.fromkeys(WINDOW_TABLES, CHANGE)
    yield from lacking_rights(conn, schema, needed)
    yield from lacking_rights(conn, requests_of(Reader(env)).schema, dict.fromkeys(REQUEST_TABLES, CHANGE))
    if not env.get("DAGSTER_POSTGRES_URL", "").strip():
        yield from _lacking_in_storage(conn)
    if not may_stage(conn):
        yield "the right to create temporary tables (GRANT TEMPORARY ON DATABASE …)"


def _lacking_in_storage(conn: Connection, schema: str = "dagster") -> Iterator[str]:
    yield from lacking_storage(conn, schema)
    yield from lacking_rights(conn, OUTBOX_SCHEMA, dict.fromkeys(OUTBOX_TABLES, CHANGE))
    yield from lacking_rights(conn, DAEMON_SCHEMA, dict.fromkeys(DAEMON_TABLES, CHANGE))


def _other_storage(env: Mapping[str, str]) -> str:
    """Return where Dagster's storage is. Raises RefreshError where it is out of reach or does not let us work."""
    with connect_storage(env, "refresh-assets check") as conn:
        row: Any = conn.execute("SELECT current_database(), current_schema(), current_user").fetchone()
        database, schema, user = row
        lacking = list(_lacking_in_storage(conn, schema or "public"))
        if lacking:
            raise RefreshError(f"role {user!r} lacks " + ", ".join(lacking))
        return f"Dagster's storage is in database {database}, schema {schema}"


def _event_log(settings: Settings, env: Mapping[str, str]) -> str:
    """Return which event log is counted, after a look at its last window. Raises RefreshError."""
    from refresh_assets.windows.partitions import window_grid

    windows = read_windows(env)
    source = read_source(env)
    grid = window_grid(windows)
    now = datetime.now(timezone.utc)
    source.look([Window(grid.last(now), grid.next(now + timedelta(seconds=1)))])
    with connect(settings.postgres, "refresh-assets check") as conn:
        standing_of(conn, read_plan(settings, grid, env))
    return f"{source.name}, in windows of {windows.cron!r} in {windows.timezone}"


def _publisher(settings: Settings, files: Mapping[str, str]) -> str:
    manifest = publisher_of(settings).manifest()
    entries = [manifest.entry(file) for file in files.values()]
    listed = ", ".join(f"{entry.name} with {entry.rows} rows" for entry in entries)
    return f"{settings.base.address('manifest.json')} has {listed}"

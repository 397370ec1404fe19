"""The outbox: what a person is to be told, kept in a table from the moment it is known until it was sent."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from refresh_assets.alerts.storage import connect_storage
from refresh_assets.alerts.text import bounded, masked_subject, one_line, readable
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import mask
from refresh_assets.settings import Env

SCHEMA = "refresh_alerts"
# All that are made in it, by whichever module.
TABLES = ("alert_outbox", "noted", "position", "seen_run", "spell", "run_heartbeat")
# Sent mail is history and goes first; owed mail that nobody took for a year has lost its meaning.
SENT_DAYS, OWED_DAYS, SENT_KEPT = 90, 365, 100_000
LONGEST_BODY = 250_000
_LONGEST_KEY, _LONGEST_NAME = 500, 200
_TAKES_ALL = ("UTF8", "SQL_ASCII")
_CREATE = queries("refresh_assets.alerts", "sql/create.sql")
_OUTBOX = queries("refresh_assets.alerts", "sql/outbox.sql")


@dataclass(frozen=True)
class Alert:
    """What a person is to be told, once for each `event_key`. `about` is a table or a job, `html` may be empty."""

    event_key: str
    kind: str
    about: str
    subject: str
    body: str
    html: str = ""


@dataclass(frozen=True)
class Owed:
    """The mail that was not sent yet, and what the latest failed attempt met with."""

    count: int
    oldest_created_at: datetime | None
    last_error: str | None


def connect_outbox(env: Env = os.environ) -> Connection:
    """Open a connection to the outbox in autocommit mode; schema and table are made where absent.

    Raises SettingsError, and RefreshError where the server cannot be reached.
    """
    conn = connect_storage(env)
    try:
        create_tables(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def create_tables(conn: Connection) -> None:
    """Create the schema and the table where they are absent, in a transaction of its own."""
    absent = conn.execute(_CREATE["absent"]).fetchone()
    if absent is None or not any(absent):
        return
    no_schema, _no_outbox = absent
    with conn.transaction():
        # IF NOT EXISTS alone can still fail when two do it at once.
        conn.execute(_CREATE["create_lock"])
        # Only where absent: the role may lack the right to create a schema that somebody else made for it.
        if no_schema:
            conn.execute(_CREATE["schema"])
        for statement in ("outbox", "due_index"):
            conn.execute(_CREATE[statement])


def record(conn: Connection, alert: Alert, env: Env = os.environ) -> bool:
    """Write an alert down, in the caller's transaction if there is one; False where its event is known already.

    Texts are masked, made printable and bounded.
    """
    row = conn.execute(
        _OUTBOX["record"],
        {
            "event_key": storable(conn, stored_key(alert.event_key)),
            "kind": storable(conn, one_line(alert.kind, _LONGEST_NAME)),
            "about": storable(conn, _about(alert.about)),
            "subject": storable(conn, masked_subject(alert.subject, env)),
            "body": storable(conn, _text(alert.body, env)),
            "html": storable(conn, _text(alert.html, env)),
        },
    ).fetchone()
    return row is not None


def owed(conn: Connection) -> Owed:
    row: Any = conn.execute(_OUTBOX["owed"]).fetchone()
    return Owed(*row)


def prune(conn: Connection) -> int:
    """Remove what is past its time, and sent mail beyond the newest 100,000; return the number of rows."""
    limits = {"sent_days": SENT_DAYS, "owed_days": OWED_DAYS, "keep": SENT_KEPT}
    return conn.execute(_OUTBOX["prune"], limits).rowcount


def stored_key(event_key: str) -> str:
    """Return a key that an index takes: a long one keeps its beginning and becomes unique by its digest."""
    key = readable(event_key)
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[: _LONGEST_KEY - 65]}:{hashlib.sha256(key.encode()).hexdigest()}"


def storable(conn: Connection, text: str) -> str:
    """Return a text as the database takes it: what is not ASCII as escapes where its encoding may lack the letter."""
    if text.isascii() or conn.info.parameter_status("server_encoding") in _TAKES_ALL:
        return text
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _about(name: str) -> str:
    return one_line(name, _LONGEST_NAME)


def _text(text: str, env: Env) -> str:
    return bounded(readable(mask(text, env)), head=LONGEST_BODY, tail=0)

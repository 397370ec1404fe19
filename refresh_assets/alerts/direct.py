"""Telling a person from a process that is not the failure sensor: by the outbox, and past it where there is none."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Sequence
from datetime import datetime, timezone

import psycopg

from refresh_assets.alerts.outbox import Alert, connect_outbox, record
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.settings import ping_url_of, usable_mail
from refresh_assets.alerts.smtp import send_now
from refresh_assets.alerts.text import Facts, failure_text, listed
from refresh_assets.errors import RefreshError
from refresh_assets.secrets import masked
from refresh_assets.settings import Env, Reader


def alert_of(event_key: str, kind: str, facts: Facts, env: Env = os.environ) -> Alert:
    """Put facts into words, with this host."""
    complete = Facts(**{**vars(facts), "host": facts.host or socket.gethostname()})
    return Alert(event_key, kind, facts.about, *failure_text(complete, env))


def owe(event_key: str, kind: str, facts: Facts, env: Env = os.environ) -> str | None:
    """Write into the outbox what the failure sensor is to send, once a key; return None, or why that did not work."""
    try:
        with connect_outbox(env) as conn:
            record(conn, alert_of(event_key, kind, facts, env), env)
    except (RefreshError, psycopg.Error) as error:
        return masked(error, env)
    return None


def tell(event_key: str, kind: str, facts: Facts, env: Env = os.environ) -> str | None:
    """Owe the mail; where the outbox cannot be reached, send it at once, with the Message-ID of its key.

    Whoever calls this sees to it that it is called once an event. Return None, or why nobody could be told; never
    raises for a database, a mail server or a setting.
    """
    problem = owe(event_key, kind, facts, env)
    if problem is None:
        return None
    settings, wrong = usable_mail(env)
    if settings is None:
        return "; ".join([problem, *(wrong or ["no mail is configured"])])
    try:
        answer = send_now(alert_of(event_key, kind, facts, env), settings, env)
    except RefreshError as error:
        return f"{problem}; {masked(error, env)}"
    return f"{problem}; {answer.refusals}" if answer.refusals else None


def could_not_begin(
    tables: Sequence[str], reason: str, env: Env = os.environ, command: str = "refresh-assets run"
) -> str | None:
    """Tell of a refresh that failed before there was a run; return None, or why mail that is configured could not be.

    The outside watcher is told as well.
    """
    facts = Facts(
        about=listed(tables),
        what=f"`{command}` could not begin; nothing was changed.",
        reason=reason,
        since=datetime.now(timezone.utc),
        advice="Mend what the reason says; `refresh-assets check` looks at settings, database, publisher and mail.",
    )
    url = ping_url_of(Reader(env))
    if url is not None:
        ping(url, "fail", reason, env)
    problem = tell(f"command:{uuid.uuid4()}", "failed", facts, env)
    return problem if usable_mail(env) != (None, []) else None

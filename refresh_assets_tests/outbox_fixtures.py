"""An outbox in a database of its own, alerts to put into it, and a look at its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import pytest
from typing_extensions import Unpack

from refresh_assets.alerts.delivery import Delivered, deliver
from refresh_assets.alerts.outbox import Alert, connect_outbox
from refresh_assets.alerts.smtp import Mailer
from refresh_assets.postgres.connect import Connection
from refresh_assets_tests.smtp_server import Mailserver

TABLE = "refresh_alerts.alert_outbox"
DUE = f"UPDATE {TABLE} SET next_attempt_at = clock_timestamp() WHERE sent_at IS NULL"


@pytest.fixture
def outbox(database: dict[str, str]) -> Iterator[Connection]:
    with connect_outbox(database) as conn:
        yield conn


def alert(number: int = 1, about: str = "datasets", kind: str = "failed") -> Alert:
    return Alert(f"run:{number}:failed", kind, about, f"[refresh] {about} failed: {number}", f"The body of {number}.\n")


class Bounds(TypedDict, total=False):
    seconds: float
    limit: int


def deliver_to(conn: Connection, server: Mailserver, **bounds: Unpack[Bounds]) -> Delivered:
    return deliver(conn, Mailer(server.settings(), {"HOME": "/nonexistent"}), **bounds)


def rows(conn: Connection, columns: str) -> list[tuple[object, ...]]:
    return conn.execute(f"SELECT {columns} FROM {TABLE} ORDER BY alert_id").fetchall()


def waits(conn: Connection) -> list[float]:
    """Return the seconds until each owed mail is tried again."""
    seconds = "extract(epoch FROM next_attempt_at - clock_timestamp())"
    return [
        float(str(row[0])) for row in conn.execute(f"SELECT {seconds} FROM {TABLE} WHERE sent_at IS NULL ORDER BY 1")
    ]

"""Delivering what the outbox owes: each mail claimed by one deliverer, tried again for as long as it takes."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass
from typing import Any

from refresh_assets.alerts.mail import message
from refresh_assets.alerts.outbox import Alert, storable
from refresh_assets.alerts.smtp import Mailer, MailError, ServerError, Session
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import masked

# A claim is void after this time: longer than connecting and sending can take.
LEASE_SECONDS = 120.0
FIRST_WAIT = 30.0
# A mail that is refused waits up to an hour. A server that is away is asked more often: one attempt serves all mail.
MAIL_LONGEST_WAIT, SERVER_LONGEST_WAIT = 3600.0, 300.0
FIRST_SHARE = 0.9
# A server that drops the connection at one mail may take the next; one that does so again and again is left alone.
MOST_BROKEN = 3
_DELIVERY = queries("refresh_assets.alerts", "sql/delivery.sql")


@dataclass(frozen=True)
class Delivered:
    """What a delivery did, in mails: `left` are all that are still owed; `error` says why the last one failed."""

    sent: int
    failed: int
    left: int
    error: str | None


@dataclass(frozen=True)
class Claimed:
    """A mail that is ours until the lease ends; `delivered_to` are the recipients that have it already."""

    alert_id: int
    attempts: int
    delivered_to: tuple[str, ...]
    alert: Alert


def deliver(conn: Connection, mailer: Mailer, *, seconds: float = 20.0, limit: int = 1000) -> Delivered:
    """Send the mail that is due, at most `limit`, the longest due first; none is begun after so many seconds.

    One begun at the last moment may still take the time-outs of connecting and sending. What goes wrong with mail is
    kept with the mail and in the result. Raises psycopg.Error where the database goes away.
    """
    delivery = _Delivery(conn, mailer)
    deadline = time.monotonic() + seconds
    with delivery.ending:
        while delivery.may_go_on and delivery.tried < limit and time.monotonic() < deadline:
            claimed = _claim(conn)
            if claimed is None:
                break
            delivery.attempt(claimed)
    row: Any = conn.execute(_DELIVERY["left"]).fetchone()
    return Delivered(delivery.sent, delivery.failed, row[0], delivery.error)


class _Delivery:
    """One connection to the server for all mails, opened for the first of them and anew where it broke."""

    def __init__(self, conn: Connection, mailer: Mailer) -> None:
        self.ending = contextlib.ExitStack()
        self.may_go_on = True
        self.sent = self.failed = self.broken = 0
        self.error: str | None = None
        self._conn = conn
        self._mailer = mailer
        self._session: Session | None = None

    @property
    def tried(self) -> int:
        return self.sent + self.failed

    def attempt(self, claimed: Claimed) -> None:
        """Send one mail, and mark it as sent, or when it is tried again and why."""
        try:
            done, refused = self._send(claimed)
        except ServerError as error:
            self._server_failed(claimed, str(error))
        except MailError as error:
            self._failed(claimed, str(error))
            if error.broken:
                self._end_session()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one mail must not hold up the others
            self._failed(claimed, f"{type(error).__name__}: {masked(error, self._mailer.env)}")
            self._end_session()
        else:
            if refused:
                self._failed(claimed, refused, done)
            else:
                _mark_sent(self._conn, claimed, done)
                self.sent += 1

    def _send(self, claimed: Claimed) -> tuple[tuple[str, ...], str]:
        """Send to those who do not have it yet; return who has it now, and in words who was refused."""
        settings = self._mailer.settings
        wanting = [address for address in settings.recipients if address not in claimed.delivered_to]
        if not wanting:
            return claimed.delivered_to, ""
        mail = message(claimed.alert, settings.sender, settings.recipients, self._mailer.env)
        answer = self._open_session().send(mail, wanting)
        done = (*claimed.delivered_to, *(address for address in wanting if address not in answer.refused))
        return done, answer.refusals

    def _open_session(self) -> Session:
        if self._session is None:
            self._session = self.ending.enter_context(self._mailer.session())
        return self._session

    def _end_session(self) -> None:
        self.ending.close()
        self._session = None
        self.broken += 1
        self.may_go_on = self.broken < MOST_BROKEN

    def _failed(self, claimed: Claimed, error: str, done: tuple[str, ...] | None = None) -> None:
        wait = _wait(claimed.attempts, MAIL_LONGEST_WAIT)
        _mark_failed(self._conn, claimed, error, wait, claimed.delivered_to if done is None else done)
        self.failed += 1
        self.error = error

    def _server_failed(self, claimed: Claimed, error: str) -> None:
        """Keep the error, and put off what else is due: it would meet with the same."""
        wait = _wait(claimed.attempts, SERVER_LONGEST_WAIT)
        _mark_failed(self._conn, claimed, error, wait, claimed.delivered_to)
        # They go first then: where this very mail is what ends each connection, it must not keep them waiting for ever.
        values = {"wait": wait * FIRST_SHARE, "error": storable(self._conn, error)}
        self._conn.execute(_DELIVERY["put_off"], values)
        self.failed += 1
        self.error = error
        self.may_go_on = False


def _claim(conn: Connection) -> Claimed | None:
    row: Any = conn.execute(_DELIVERY["claim"], {"lease": LEASE_SECONDS}).fetchone()
    if row is None:
        return None
    alert_id, attempts, delivered_to, *texts = row
    return Claimed(alert_id, attempts, tuple(delivered_to), Alert(*texts))


def _mark_sent(conn: Connection, claimed: Claimed, done: tuple[str, ...]) -> None:
    conn.execute(_DELIVERY["sent"], {"alert_id": claimed.alert_id, "delivered_to": list(done)})


def _mark_failed(conn: Connection, claimed: Claimed, error: str, wait: float, done: tuple[str, ...]) -> None:
    conn.execute(
        _DELIVERY["failed"],
        {
            "alert_id": claimed.alert_id,
            "error": storable(conn, error),
            "wait": wait,
            "delivered_to": list(done),
        },
    )


def _wait(attempts: int, longest: float) -> float:
    """Return the seconds before the next attempt: doubled with each, and spread, for several may wait alike."""
    doubled = FIRST_WAIT * 2.0 ** min(attempts - 1, 20)
    return min(doubled, longest) * random.uniform(0.75, 1.0)  # noqa: S311

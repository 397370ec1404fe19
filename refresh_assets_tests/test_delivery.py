"""Delivering: each mail once, kept for as long as it takes, none held up by another."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from refresh_assets.alerts.delivery import (
    LEASE_SECONDS,
    MAIL_LONGEST_WAIT,
    SERVER_LONGEST_WAIT,
    Delivered,
    deliver,
)
from refresh_assets.alerts.outbox import connect_outbox, owed, record
from refresh_assets.alerts.smtp import OPEN_SECONDS, SEND_SECONDS, Mailer
from refresh_assets.postgres.connect import Connection
from refresh_assets_tests.outbox_fixtures import DUE, alert, deliver_to, rows, waits
from refresh_assets_tests.smtp_server import DROP, Caught, behaving, catching, unreachable


def test_an_alert_is_delivered_once(outbox: Connection) -> None:
    record(outbox, alert())
    with catching() as server:
        assert deliver_to(outbox, server) == Delivered(1, 0, 0, None)
        assert deliver_to(outbox, server) == Delivered(0, 0, 0, None)
    assert [caught.mail["Subject"] for caught in server.mails] == ["[refresh] datasets failed: 1"]
    assert server.mails[0].text() == "The body of 1.\n"
    assert rows(outbox, "attempts, last_error, sent_at IS NOT NULL") == [(1, None, True)]


def test_nothing_owed_opens_no_connection(outbox: Connection) -> None:
    with catching() as server:
        assert deliver_to(outbox, server).sent == 0
    assert server.connections == 0


@pytest.mark.slow
def test_a_thousand_mails_go_over_one_connection_in_bounded_time(outbox: Connection) -> None:
    with outbox.transaction():
        for number in range(1000):
            record(outbox, alert(number))
    begun = time.monotonic()
    with catching() as server:
        assert deliver_to(outbox, server, seconds=60) == Delivered(1000, 0, 0, None)
    assert time.monotonic() - begun < 60
    assert server.connections == 1
    assert len(set(server.ids)) == 1000


def test_a_delivery_stops_at_its_number_and_its_time(outbox: Connection) -> None:
    for number in range(3):
        record(outbox, alert(number))
    with catching() as server:
        assert deliver_to(outbox, server, limit=2) == Delivered(2, 0, 1, None)
        assert deliver_to(outbox, server, seconds=0) == Delivered(0, 0, 1, None)


def test_with_the_server_down_mail_is_kept_backed_off_and_delivered_once_on_its_return(outbox: Connection) -> None:
    for number in range(5):
        record(outbox, alert(number))
    down = unreachable()
    done = deliver_to(outbox, down)
    assert (done.sent, done.failed, done.left) == (0, 1, 5)
    assert "no connection to the mail server" in (done.error or "")
    assert deliver_to(outbox, down) == Delivered(0, 0, 5, None)
    assert all(10 < wait <= 30 for wait in waits(outbox))
    assert rows(outbox, "attempts") == [(1,), (0,), (0,), (0,), (0,)]
    outbox.execute(DUE)
    with catching(port=down.port) as server:
        assert deliver_to(outbox, server) == Delivered(5, 0, 0, None)
    assert len(set(server.ids)) == len(server.ids) == 5


def test_a_new_alert_is_tried_at_once_although_others_wait_for_the_server(outbox: Connection) -> None:
    record(outbox, alert(1))
    down = unreachable()
    deliver_to(outbox, down)
    record(outbox, alert(2))
    with catching(port=down.port) as server:
        assert deliver_to(outbox, server) == Delivered(1, 0, 1, None)


@pytest.mark.parametrize(
    ("script", "longest"), [({"": "421 busy"}, SERVER_LONGEST_WAIT), ({".": "554 spam"}, MAIL_LONGEST_WAIT)]
)
def test_the_wait_doubles_up_to_its_bound_and_goes_on_for_ever(
    outbox: Connection, script: dict[str, str], longest: float
) -> None:
    record(outbox, alert())
    seen = []
    with behaving(script) as server:
        for attempts in (0, 1, 2, 20, 5000):
            outbox.execute(f"{DUE.replace('SET', f'SET attempts = {attempts},')}")
            deliver_to(outbox, server)
            seen += waits(outbox)
    for wait, most in zip(seen, (30, 60, 120, longest, longest), strict=True):
        assert most * 0.75 - 5 < wait <= most
    assert owed(outbox).count == 1


def test_a_mail_that_is_refused_does_not_hold_up_the_others(outbox: Connection) -> None:
    for number in range(4):
        record(outbox, alert(number))

    def spam(caught: Caught) -> str:
        return "554 looks like spam" if b"failed: 1\r\n" in caught.content else "250 ok"

    with catching(answer=spam) as server:
        done = deliver_to(outbox, server)
    assert (done.sent, done.failed, done.left) == (3, 1, 1)
    assert "554 looks like spam" in (owed(outbox).last_error or "")
    assert server.connections == 1


def test_a_connection_that_breaks_at_one_mail_is_opened_anew_for_the_next(outbox: Connection) -> None:
    for number in range(2):
        record(outbox, alert(number))
    with behaving({"mid data": DROP}) as server:
        done = deliver_to(outbox, server)
    assert (done.sent, done.failed, server.connections) == (0, 2, 2)


def test_a_server_that_breaks_every_connection_is_left_alone_after_three(outbox: Connection) -> None:
    for number in range(10):
        record(outbox, alert(number))
    with behaving({"mid data": DROP}) as server:
        done = deliver_to(outbox, server)
    assert (done.failed, server.connections) == (3, 3)


def test_a_recipient_who_was_refused_gets_the_mail_later_and_the_others_do_not_get_it_twice(outbox: Connection) -> None:
    record(outbox, alert())
    refused = {"new@example.org": "450 not yet"}
    with catching(refused=refused) as server:
        mailer = Mailer(server.settings(to=("team@example.org", "new@example.org")), {"HOME": "/nonexistent"})
        done = deliver(outbox, mailer)
        assert (done.sent, done.failed, done.left) == (0, 1, 1)
        assert done.error == "refused for new@example.org: 450 not yet"
        refused.clear()
        outbox.execute(DUE)
        assert deliver(outbox, mailer) == Delivered(1, 0, 0, None)
    assert [caught.recipients for caught in server.mails] == [("team@example.org",), ("new@example.org",)]
    assert len(set(server.ids)) == 1


def test_two_deliverers_at_once_send_each_mail_once(database: dict[str, str], outbox: Connection) -> None:
    for number in range(60):
        record(outbox, alert(number))
    with catching() as server:

        def work() -> None:
            with connect_outbox(database) as conn:
                done.append(deliver_to(conn, server).sent)

        done: list[int] = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sum(done) == 60
    assert len(server.mails) == len(set(server.ids)) == 60


class KilledError(BaseException):
    """Ends a delivery as a signal would."""


class DiesAfterSending(Mailer):
    """The process dies between the server's answer and the mark in the outbox."""

    def words(self, error: Exception, *, seconds: float | None = None) -> str:
        raise KilledError


def test_a_crash_between_sent_and_marked_leads_to_one_duplicate_with_the_same_identity(outbox: Connection) -> None:
    record(outbox, alert())
    with catching() as server:
        with pytest.raises(KilledError):
            deliver(outbox, DiesAfterSending(server.settings()))
        assert deliver_to(outbox, server).sent == 0
        assert waits(outbox)[0] > LEASE_SECONDS - 60
        outbox.execute(DUE)
        assert deliver_to(outbox, server).sent == 1
        assert deliver_to(outbox, server).sent == 0
    assert len(server.ids) == 2
    assert len(set(server.ids)) == 1


def test_a_claim_lasts_longer_than_a_delivery_can(outbox: Connection) -> None:
    assert LEASE_SECONDS > 2 * (OPEN_SECONDS + SEND_SECONDS)


class CannotWrite(Mailer):
    """A fault of our own while one mail is written or sent."""

    @property
    def where(self) -> str:
        raise RuntimeError("out of luck")


def test_a_fault_of_our_own_is_kept_with_the_mail(outbox: Connection) -> None:
    record(outbox, alert())
    done = deliver(outbox, CannotWrite(unreachable().settings()))
    assert (done.failed, done.left) == (1, 1)
    assert owed(outbox).last_error == "RuntimeError: out of luck"


def test_a_database_that_goes_away_is_told(outbox: Connection) -> None:
    record(outbox, alert())

    def cut(_caught: Caught) -> str:
        with psycopg.connect(**keywords, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (outbox.info.backend_pid,))
        return "250 ok"

    info = outbox.info
    keywords: dict[str, Any] = {
        "host": info.host,
        "port": info.port,
        "user": info.user,
        "password": info.password,
        "dbname": info.dbname,
    }
    with catching(answer=cut) as server, pytest.raises(psycopg.OperationalError):
        deliver_to(outbox, server)


def test_an_alert_without_html_is_plain_text(outbox: Connection) -> None:
    record(outbox, alert())
    with catching() as server:
        deliver_to(outbox, server)
    assert server.mails[0].mail.get_content_type() == "text/plain"

"""Giving mail to a server: secured as the settings ask for, never hanging, with the server's words in every error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from refresh_assets.alerts import smtp
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.settings import AlertSettings, Security
from refresh_assets.alerts.smtp import Mailer, MailError, ServerError, send_now
from refresh_assets_tests.smtp_server import CERTIFICATE, DROP, HANG, Script, behaving, catching, unreachable

# The test server warns of what some tests ask of it.
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
ENV = {"HOME": "/nonexistent"}
LOGIN = ("robot", "p@ss w/rd")
ALERT = Alert("run:1:failed", "failed", "datasets", "[refresh] datasets failed: why", "The body.\n")
SECURE: list[Security] = ["starttls", "tls"]


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "STEP_SECONDS", 0.5)
    monkeypatch.setattr(smtp, "OPEN_SECONDS", 1.0)
    monkeypatch.setattr(smtp, "SEND_SECONDS", 0.7)


@pytest.fixture
def impatient_once_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "SEND_SECONDS", 0.7)


def refusal(settings: AlertSettings) -> str:
    """Return why no mail at all can be sent."""
    with pytest.raises(ServerError) as caught:
        send_now(ALERT, settings, ENV)
    return str(caught.value)


def error_of_mail(settings: AlertSettings) -> str:
    """Return why one mail was not taken."""
    with pytest.raises(MailError) as caught:
        send_now(ALERT, settings, ENV)
    return str(caught.value)


# Sent


def test_a_relay_without_tls_and_login_is_sent_to_without_them() -> None:
    with behaving({}) as server:
        answer = send_now(ALERT, server.settings(), ENV)
    assert answer.text == "250 queued"
    assert server.commands == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert "Subject: [refresh] datasets failed: why" in server.mails[0].content.decode()


def test_every_recipient_gets_the_mail() -> None:
    with catching() as server:
        send_now(ALERT, server.settings(to=("a@example.org", "b@example.net")), ENV)
    assert server.mails[0].recipients == ("a@example.org", "b@example.net")
    assert server.mails[0].mail["To"] == "a@example.org, b@example.net"
    assert server.mails[0].sender == "refresh@example.org"


@pytest.mark.parametrize("security", SECURE)
@pytest.mark.parametrize("login", [None, LOGIN, ("robot", "pässwört 東京")], ids=["no login", "login", "not ASCII"])
def test_mail_goes_over_an_encrypted_connection_with_and_without_login(
    security: Security, login: tuple[str, str] | None
) -> None:
    with catching(security=security, login=login, demand_starttls=security == "starttls") as server:
        send_now(ALERT, server.settings(security, login), ENV)
    assert server.mails[0].text() == "The body.\n"


def test_a_look_says_what_is_there_and_sends_nothing() -> None:
    with catching(security="starttls", login=LOGIN) as server:
        text = Mailer(server.settings("starttls", LOGIN), ENV).look()
    assert f"127.0.0.1:{server.port} says 'mail.example.org" in text
    assert "STARTTLS, logged in as robot" in text
    assert server.mails == []


def test_some_refused_recipients_do_not_keep_the_mail_from_the_others() -> None:
    with catching(refused={"gone@example.org": "550 no such user"}) as server:
        answer = send_now(ALERT, server.settings(to=("a@example.org", "gone@example.org")), ENV)
    assert server.mails[0].recipients == ("a@example.org",)
    assert answer.refused == {"gone@example.org": "550 no such user"}


# Not in clear, not to a stranger


def test_where_starttls_is_not_offered_nothing_is_sent_in_clear() -> None:
    with behaving({}) as server:
        text = refusal(server.settings("starttls", LOGIN))
    assert "does not offer STARTTLS, and nothing is sent in clear" in text
    assert server.commands == ["EHLO"]


def test_where_starttls_is_offered_and_then_denied_nothing_is_sent_in_clear() -> None:
    with behaving({"EHLO": "250-mail.example.org\r\n250-AUTH PLAIN\r\n250 STARTTLS"}) as server:
        text = refusal(server.settings("starttls", LOGIN))
    assert "454 not now" in text
    assert server.commands == ["EHLO", "STARTTLS"]


@pytest.mark.parametrize("security", SECURE)
def test_a_certificate_that_nobody_vouches_for_is_refused(
    security: Security, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with catching(security=security) as server:
        text = refusal(server.settings(security))
    assert "certificate verify failed" in text
    assert "SSL_CERT_FILE" in text
    assert server.mails == []


def test_a_certificate_for_another_name_is_refused() -> None:
    with catching(security="starttls") as server:
        settings = server.settings("starttls")
        text = refusal(AlertSettings(**{**vars(settings), "host": "localhost"}))
    assert "certificate verify failed" in text


def test_a_server_that_speaks_no_tls_is_no_tls_server() -> None:
    with catching() as server:
        assert "cannot be used" in refusal(server.settings("tls"))
    assert server.mails == []


def test_a_server_that_demands_starttls_says_so_where_none_is_wanted() -> None:
    with catching(security="starttls", demand_starttls=True) as server:
        assert "530 Must issue a STARTTLS command first" in refusal(server.settings("none"))


def test_a_login_that_is_not_offered_is_told() -> None:
    with behaving({}) as server:
        assert "it offers no login; unset SMTP_USER" in refusal(server.settings("none", LOGIN))


def test_a_login_that_is_demanded_is_told() -> None:
    with catching(login=LOGIN) as server:
        assert "530" in refusal(server.settings("none"))


@pytest.mark.parametrize("password", ["wr0ng-w0rd", "wröng-wörd"])
def test_a_refused_login_is_told_without_the_password(password: str) -> None:
    with catching(security="starttls", login=LOGIN) as server:
        text = refusal(server.settings("starttls", ("robot", password)))
    assert "535" in text
    assert password not in text


# The server's words, without secrets


def test_a_password_that_the_server_echoes_is_masked() -> None:
    script = {"EHLO": "250-mail.example.org\r\n250 AUTH PLAIN", "AUTH": "535 5.7.8 cannot take {line} for p@ss w/rd"}
    with behaving(script) as server:
        text = refusal(server.settings("none", LOGIN))
    assert "535 5.7.8 cannot take AUTH PLAIN *** for ***" in text


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"": "554 go away"}, "554 go away"),
        ({"": "421 too busy"}, "421 too busy"),
        ({"": DROP}, "closed"),
        ({"EHLO": DROP}, "closed"),
        ({"EHLO": "500 no", "HELO": "504 no either"}, "504 no either"),
        ({"MAIL": "550 5.7.1 you may not send"}, "550 5.7.1 you may not send"),
        ({"RCPT": "421 shutting down"}, "421 shutting down"),
        ({"DATA": "421 shutting down"}, "421 shutting down"),
        ({".": "421 shutting down"}, "421 shutting down"),
    ],
)
def test_what_would_happen_to_every_mail_is_the_servers_fault(script: Script, words: str) -> None:
    with behaving(script) as server:
        text = refusal(server.settings())
    assert words in text
    assert f"the mail server 127.0.0.1:{server.port}" in text


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"RCPT": "550 no such user\r\n"}, "team@example.org: 550 no such user"),
        ({"RCPT": "450 greylisted"}, "450 greylisted"),
        ({"DATA": "554 no valid recipients"}, "554 no valid recipients"),
        ({".": "554-5.7.1 looks like spam\r\n554 see https://mail.example.org"}, "5.7.1 looks like spam see https"),
        ({"MAIL": "552 too large"}, "552 too large"),
        ({"mid data": DROP}, "closed"),
        ({".": DROP}, "closed"),
    ],
)
def test_what_happens_to_one_mail_is_told_with_the_servers_words(script: Script, words: str) -> None:
    with behaving(script) as server:
        assert words in error_of_mail(server.settings())
    assert server.mails == []


def test_a_server_that_is_down_is_named() -> None:
    server = unreachable()
    assert refusal(server.settings()).startswith(f"no connection to the mail server 127.0.0.1:{server.port}: ")


def test_a_name_that_does_not_exist_is_named() -> None:
    settings = AlertSettings(**{**vars(unreachable().settings()), "host": "mail.invalid"})
    assert refusal(settings).startswith("no connection to the mail server mail.invalid:")


# Never for long


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "script",
    [{"": HANG}, {"EHLO": HANG}, {"": "drip 220 " + "x" * 400}, {"EHLO": "drip 250 " + "x" * 400}],
    ids=["never greets", "never answers", "greets for ever", "answers for ever"],
)
@pytest.mark.parametrize("security", ["none", "starttls"])
def test_a_server_that_never_comes_to_the_point_is_given_up(script: Script, security: Security) -> None:
    begun = time.monotonic()
    with behaving(script) as server:
        assert "time-out" in refusal(server.settings(security))
    assert time.monotonic() - begun < 15


@pytest.mark.usefixtures("impatient")
def test_a_server_that_never_greets_over_tls_is_given_up() -> None:
    begun = time.monotonic()
    with behaving({"": HANG}) as server:
        assert "time-out" in refusal(server.settings("tls"))
    assert time.monotonic() - begun < 15


@pytest.mark.usefixtures("impatient_once_in")
@pytest.mark.parametrize(
    "script",
    [{"MAIL": HANG}, {"RCPT": HANG}, {"DATA": HANG}, {".": HANG}, {"MAIL": "drip 250 " + "x" * 400}],
    ids=str,
)
def test_a_server_that_hangs_at_a_mail_is_given_up(script: Script) -> None:
    begun = time.monotonic()
    with behaving(script) as server:
        assert "time-out" in error_of_mail(server.settings())
    assert time.monotonic() - begun < 15


def test_a_server_that_hangs_at_the_goodbye_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "GOODBYE_SECONDS", 0.3)
    with behaving({"QUIT": HANG}) as server:
        assert send_now(ALERT, server.settings(), ENV).text == "250 queued"
    assert len(server.mails) == 1

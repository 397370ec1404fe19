"""A mail server: connections to it, mail given to it, and its answers in words. Everything has a time-out."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage

from refresh_assets.alerts.mail import message
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.settings import AlertSettings
from refresh_assets.alerts.text import one_line
from refresh_assets.alerts.within import cut_after, within
from refresh_assets.errors import RefreshError
from refresh_assets.secrets import mask
from refresh_assets.settings import Env

# For one step of the conversation, for all of it up to the login, and for giving over one mail.
STEP_SECONDS = 10.0
OPEN_SECONDS = 12.0
SEND_SECONDS = 20.0
GOODBYE_SECONDS = 2.0
_LONGEST_ANSWER = 500
_READY = 220
_CLOSING = 421
_TOO_LARGE = 552


class ServerError(RefreshError):
    """No mail at all can be sent now: no connection, a time-out, no STARTTLS, a refused login or sender."""


class MailError(RefreshError):
    """One mail was not taken; `broken` tells that the connection is gone as well."""

    def __init__(self, text: str, *, broken: bool) -> None:
        super().__init__(text)
        self.broken = broken


@dataclass(frozen=True)
class Answer:
    """What the server said when it took a mail, and why it refused some of its recipients, by address."""

    text: str
    refused: Mapping[str, str]

    @property
    def refusals(self) -> str:
        """Say in words who was refused and why; empty where nobody was."""
        return "; ".join(f"refused for {address}: {reason}" for address, reason in self.refused.items())


class Mailer:
    """The way to the mail server that the settings name; nothing is opened before `session`."""

    def __init__(self, settings: AlertSettings, env: Env = os.environ) -> None:
        self.settings = settings
        login = {"SMTP_USER": settings.user, "SMTP_PASSWORD": settings.password}
        self.env = {**env, **{name: value for name, value in login.items() if value}}

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Connect, greet, secure and log in; say goodbye at the end. Raises ServerError."""
        client = self._open()
        try:
            yield Session(client, self)
        finally:
            _say_goodbye(client)

    def look(self) -> str:
        """Do all but send, and return what there is in one line. Raises ServerError."""
        with self.session() as session:
            return session.described

    def words(self, error: Exception, *, seconds: float | None = None) -> str:
        """Return an error of the conversation in one line, with the server's own words and without a password.

        `seconds` tells that the connection was cut after that time.
        """
        return one_line(mask(_words(error, seconds), self.env), _LONGEST_ANSWER)

    @property
    def where(self) -> str:
        return f"{self.settings.host}:{self.settings.port}"

    def _open(self) -> _Client:
        started = time.monotonic()
        try:
            sock = within(STEP_SECONDS, self._connect, late=socket.socket.close)
        except (OSError, ValueError) as error:
            raise ServerError(f"no connection to the mail server {self.where}: {self.words(error)}") from None
        client = _Client(self.settings.host, sock)
        seconds = max(1.0, OPEN_SECONDS - (time.monotonic() - started))
        with cut_after(seconds, lambda: client.sock) as cut:
            try:
                self._greet(client)
                if cut.is_set():
                    # What was heard of the last answer looked like a good one.
                    raise TimeoutError  # noqa: TRY301
            except (OSError, smtplib.SMTPException, ValueError) as error:
                client.close()
                text = self.words(error, seconds=OPEN_SECONDS if cut.is_set() else None)
                raise ServerError(f"the mail server {self.where} cannot be used: {text}") from None
            except BaseException:
                client.close()
                raise
        return client

    def _connect(self) -> socket.socket:
        # Half the time for each of its addresses, so that one that does not answer leaves some for the next.
        return socket.create_connection((self.settings.host, self.settings.port), STEP_SECONDS / 2)

    def _greet(self, client: _Client) -> None:
        settings = self.settings
        client.begin(ssl.create_default_context() if settings.security == "tls" else None)
        client.ehlo_or_helo_if_needed()
        if settings.security == "starttls":
            if not client.has_extn("starttls"):
                raise smtplib.SMTPNotSupportedError(
                    "it does not offer STARTTLS, and nothing is sent in clear; "
                    "SMTP_SECURITY=none would do so, SMTP_SECURITY=tls is for servers that begin with TLS"
                )
            client.starttls(context=ssl.create_default_context())
            client.ehlo_or_helo_if_needed()
        if settings.user is not None and settings.password is not None:
            if not client.has_extn("auth"):
                raise smtplib.SMTPNotSupportedError("it offers no login; unset SMTP_USER to send without one")
            client.log_in(settings.user, settings.password)


class Session:
    """An open, logged-in connection, good for any number of mails."""

    def __init__(self, client: _Client, mailer: Mailer) -> None:
        self._client = client
        self._mailer = mailer

    @property
    def described(self) -> str:
        """Say in one line where this leads and how: server, its greeting, security, login."""
        settings = self._mailer.settings
        how = {"none": "in clear", "starttls": "STARTTLS", "tls": "TLS"}[settings.security]
        login = f"logged in as {settings.user}" if settings.user else "without login"
        greeting = mask(f"says {_text(self._client.greeting)!r}", self._mailer.env)
        return one_line(f"{self._mailer.where} {greeting}, {how}, {login}", _LONGEST_ANSWER)

    def send(self, mail: EmailMessage, recipients: Sequence[str]) -> Answer:
        """Give over one mail for these recipients. Raises MailError, and ServerError where no other would pass."""
        client, mailer = self._client, self._mailer
        sock = client.sock
        if sock is None:
            raise MailError("the connection to the mail server is closed", broken=True)
        sock.settimeout(SEND_SECONDS)
        with cut_after(SEND_SECONDS, lambda: client.sock) as cut:
            try:
                refused = client.sendmail(mailer.settings.sender, list(recipients), mail.as_bytes())
            except (OSError, smtplib.SMTPException) as error:
                seconds = SEND_SECONDS if cut.is_set() else None
                raise self._error(error, mailer.words(error, seconds=seconds)) from None
        reasons = {address: mailer.words(smtplib.SMTPResponseException(*said)) for address, said in refused.items()}
        return Answer(mailer.words(smtplib.SMTPResponseException(*client.taken)), reasons)

    def _error(self, error: Exception, text: str) -> RefreshError:
        codes = _codes(error)
        sender_refused = isinstance(error, smtplib.SMTPSenderRefused) and _TOO_LARGE not in codes
        if sender_refused or _CLOSING in codes:
            self._client.close()
            return ServerError(f"the mail server {self._mailer.where} takes no mail: {text}")
        return MailError(
            f"the mail server {self._mailer.where} did not take the mail: {text}", broken=self._client.sock is None
        )


def send_now(alert: Alert, settings: AlertSettings, env: Env = os.environ) -> Answer:
    """Send an alert past the outbox, for the time when there is none. Raises ServerError and MailError."""
    mailer = Mailer(settings, env)
    mail = message(alert, settings.sender, settings.recipients, mailer.env)
    with mailer.session() as session:
        return session.send(mail, settings.recipients)


class _Client(smtplib.SMTP):
    """smtplib's client on a connection that is there already; it keeps what the server said last."""

    def __init__(self, host: str, sock: socket.socket) -> None:
        # A name of ours is given, or a name server would be asked for it without a time-out.
        super().__init__(local_hostname=_own_name(sock), timeout=STEP_SECONDS)
        # What the server's certificate must name.
        self._host = host
        self.sock: socket.socket | None = sock
        self.greeting: bytes = b""
        self.taken: tuple[int, bytes] = (0, b"")
        sock.settimeout(STEP_SECONDS)

    def begin(self, tls: ssl.SSLContext | None) -> None:
        """Encrypt where wanted, and hear the greeting."""
        if tls is not None and self.sock is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname=self._host)
        code, self.greeting = self.getreply()
        if code != _READY:
            raise smtplib.SMTPConnectError(code, self.greeting)

    def log_in(self, user: str, password: str) -> None:
        if user.isascii() and password.isascii():
            self.login(user, password)
            return
        # smtplib's own knows ASCII only; RFC 4616 has UTF-8.
        secret = f"\0{user}\0{password}".encode("utf-8", "surrogateescape")
        code, said = self.docmd("AUTH", "PLAIN " + base64.b64encode(secret).decode())
        if code not in (235, 503):
            raise smtplib.SMTPAuthenticationError(code, said)

    def data(self, msg: bytes | bytearray | str) -> tuple[int, bytes]:  # type: ignore[override]
        self.taken = super().data(msg)
        return self.taken


def _own_name(sock: socket.socket) -> str:
    """Return what to call ourselves: the host's full name, else its address, as RFC 5321 has it."""
    name = socket.gethostname()
    if "." in name and re.fullmatch(r"[A-Za-z0-9.-]+", name):
        return name
    address = str(sock.getsockname()[0])
    return f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"


def _say_goodbye(client: _Client) -> None:
    with contextlib.suppress(OSError, smtplib.SMTPException):
        if client.sock is not None:
            client.sock.settimeout(GOODBYE_SECONDS)
            with cut_after(GOODBYE_SECONDS, lambda: client.sock):
                client.quit()
    client.close()


def _codes(error: Exception) -> set[int]:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return {code for code, _said in error.recipients.values()}
    return {error.smtp_code} if isinstance(error, smtplib.SMTPResponseException) else set()


def _words(error: Exception, seconds: float | None) -> str:
    if seconds is not None:
        return f"time-out: not done within {seconds:g} seconds"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "; ".join(f"{address}: {code} {_text(said)}" for address, (code, said) in error.recipients.items())
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_text(error.smtp_error)}"
    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{text}; SSL_CERT_FILE may name certificates of your own to trust"
    return "time-out: it did not answer in time" if isinstance(error, TimeoutError) or "timed out" in text else text


def _text(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)

"""Real mail servers: a well-behaved one (aiosmtpd, with TLS, STARTTLS and login), and one that does what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from refresh_assets.alerts.settings import AlertSettings, Security

# For 127.0.0.1, with its key; trusted where SSL_CERT_FILE names it.
CERTIFICATE = Path(__file__).with_name("publisher.pem")
LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Caught:
    """A mail as it arrived: its envelope and its bytes."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes

    @property
    def mail(self) -> EmailMessage:
        return email.message_from_bytes(self.content, policy=email.policy.default)

    def text(self, kind: str = "plain") -> str:
        """Return the decoded text of the plain or the html part."""
        part = self.mail.get_body((kind,))
        assert part is not None
        return str(part.get_content()).replace("\r\n", "\n")


@dataclass
class Mailserver:
    """A running server: its port, what it took, and how often somebody connected, with which commands."""

    port: int = 0
    mails: list[Caught] = field(default_factory=list)
    connections: int = 0
    commands: list[str] = field(default_factory=list)

    def settings(
        self,
        security: Security = "none",
        login: tuple[str, str] | None = None,
        to: tuple[str, ...] = ("team@example.org",),
    ) -> AlertSettings:
        user, password = login or (None, None)
        return AlertSettings(LOCALHOST, self.port, security, user, password, "refresh@example.org", to)

    @property
    def ids(self) -> list[str]:
        return [caught.mail["Message-ID"] for caught in self.mails]


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind((LOCALHOST, 0))
        return int(sock.getsockname()[1])


def unreachable(port: int | None = None) -> Mailserver:
    """Return a server that is down: a port that refuses."""
    return Mailserver(port or free_port())


class _Handler:
    def __init__(self, server: Mailserver, refused: dict[str, str], answer: Callable[[Caught], str]) -> None:
        self.server, self.refused, self.answer = server, refused, answer

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 ok"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        caught = Caught(envelope.mail_from, tuple(envelope.rcpt_tos), envelope.content)
        answer = self.answer(caught)
        if answer.startswith("250"):
            self.server.mails.append(caught)
        return answer


@contextlib.contextmanager
def catching(  # noqa: PLR0913
    *,
    security: Security = "none",
    login: tuple[str, str] | None = None,
    refused: dict[str, str] | None = None,
    answer: Callable[[Caught], str] = lambda _caught: "250 queued as 1",
    port: int = 0,
    demand_starttls: bool = False,
) -> Iterator[Mailserver]:
    """Run a well-behaved server that catches mail; `refused` are answers by recipient."""
    server = Mailserver()
    handler = _Handler(server, refused or {}, answer)
    context = None
    if security != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)

    def check_login(_smtp: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        given = (data.login.decode(), data.password.decode()) if isinstance(data, LoginPassword) else None
        return AuthResult(success=given == login, handled=False)

    def talk() -> SMTP:
        server.connections += 1
        return SMTP(
            handler,
            hostname="mail.example.org",
            tls_context=context if security == "starttls" else None,
            require_starttls=demand_starttls,
            authenticator=check_login if login else None,
            auth_required=login is not None,
            auth_require_tls=security == "starttls",
            loop=loop,
        )

    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(
        loop.create_server(talk, LOCALHOST, port, ssl=context if security == "tls" else None)
    )
    server.port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, name="mail server")
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


HANG, DROP = "hang", "drop"
Script = dict[str, str]
_MANNERS: Script = {
    "": "220 mail.example.org ESMTP",
    "EHLO": "250-mail.example.org\r\n250 8BITMIME",
    "HELO": "250 mail.example.org",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go on",
    ".": "250 queued",
    "RSET": "250 ok",
    "QUIT": "221 bye",
    "AUTH": "235 welcome",
    "STARTTLS": "454 not now",
}


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    script: Script
    seen: Mailserver
    stopping: threading.Event


class _Conversation(socketserver.StreamRequestHandler):
    server: _Listener
    timeout = 60

    def handle(self) -> None:
        self.server.seen.connections += 1
        with contextlib.suppress(OSError, _DroppedError):
            self._answer("")
            sender = ""
            recipients: list[str] = []
            while line := self.rfile.readline(100_000).decode("utf-8", "replace").rstrip("\r\n"):
                word = line.split(" ")[0].upper()
                self.server.seen.commands.append(word)
                if word == "MAIL":
                    sender, recipients = line, []
                if word == "RCPT":
                    recipients.append(line)
                if self._answer(word, line).startswith("354"):
                    content = self._content()
                    if self._answer(".").startswith("250"):
                        self.server.seen.mails.append(Caught(sender, tuple(recipients), content))
                if word == "QUIT":
                    return

    def _content(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            if self.server.script.get("mid data") == DROP:
                raise _DroppedError
            lines.append(line)
        return b"".join(lines)

    def _answer(self, word: str, line: str = "") -> str:
        answer = self.server.script.get(word, "500 what?").replace("{line}", line)
        if answer == HANG:
            self.server.stopping.wait(60)
        if answer in (HANG, DROP):
            raise _DroppedError
        if answer.startswith("drip "):
            self._drip(answer.removeprefix("drip ").encode())
        else:
            self.wfile.write(answer.encode() + b"\r\n")
        return answer

    def _drip(self, answer: bytes) -> None:
        """Send a byte now and then, so that no single step takes long."""
        for byte in answer:
            self.wfile.write(bytes([byte]))
            if self.server.stopping.wait(0.1):
                raise _DroppedError


class _DroppedError(Exception):
    """The script ends the connection here."""


@contextlib.contextmanager
def behaving(script: Script, port: int = 0) -> Iterator[Mailserver]:
    """Run a server that answers by the first word of a command; what the script lacks is answered with good manners.

    `""` is the greeting, `"."` the end of a mail, `"mid data"` (DROP) its middle. HANG never answers, DROP closes,
    `drip …` sends byte by byte, `{line}` is what the client sent.
    """
    server = Mailserver()
    with _Listener((LOCALHOST, port), _Conversation) as listener:
        listener.script, listener.seen, listener.stopping = {**_MANNERS, **script}, server, threading.Event()
        server.port = listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,), name="mail server")
        thread.start()
        try:
            yield server
        finally:
            listener.stopping.set()
            listener.shutdown()
            thread.join(10)

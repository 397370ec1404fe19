"""What can stand between us and a database: a line that goes dead, a pooler that lends sessions by the transaction."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

import psycopg

LOCALHOST = "127.0.0.1"
_READY = b"Z"
_IDLE = b"I"


class Line:
    """A line to a server that can go dead: nothing passes any more, and nobody is told."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._dead = threading.Event()
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._dead.set()

    def close(self) -> None:
        self.cut()
        self._listener.close()
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _address = self._listener.accept()
                self._sockets.append(here)
                if self._dead.is_set():
                    continue
                there = socket.create_connection(self._target)
                self._sockets.append(there)
                for source, sink in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._dead.is_set():
                    return
                sink.sendall(data)
            if not self._dead.is_set():
                sink.shutdown(socket.SHUT_WR)


class _Pool(socketserver.ThreadingTCPServer):
    """Lends its sessions for a transaction each, the one that came back last first, as PgBouncer does."""

    allow_reuse_address = True
    daemon_threads = True
    settings: dict[str, str]
    idle: list[psycopg.Connection[tuple[object, ...]]]
    loyalty: int

    def borrow(self) -> psycopg.Connection[tuple[object, ...]]:
        with contextlib.suppress(IndexError):
            return self.idle.pop()
        env = self.settings
        return psycopg.connect(
            host=env["PGHOST"],
            port=env["PGPORT"],
            user=env["PGUSER"],
            password=env["PGPASSWORD"],
            dbname=env["PGDATABASE"],
        )


class _Client(socketserver.BaseRequestHandler):
    server: _Pool
    request: socket.socket

    def handle(self) -> None:
        self.loans = 0
        self.kept: list[psycopg.Connection[tuple[object, ...]]] = []
        try:
            self._serve()
        finally:
            self.server.idle.extend(self.kept)

    def _serve(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._welcome()
            while True:
                # The client waits for the answer to all that it sent before it sends more.
                asked = self.request.recv(1_000_000)
                if not asked or asked[:1] == b"X":
                    return
                self._lend(asked)

    def _welcome(self) -> None:
        """Answer requests for encryption with no, and let in without a password."""
        while True:
            (length,) = struct.unpack("!I", self._exactly(4))
            (code,) = struct.unpack("!I", self._exactly(length - 4)[:4])
            if code == 3 << 16:
                break
            self.request.sendall(b"N")
        facts = {"server_version": "18.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
        answer = _message(b"R", struct.pack("!I", 0))
        for name, value in facts.items():
            answer += _message(b"S", f"{name}\0{value}\0".encode())
        self.request.sendall(answer + _message(b"K", struct.pack("!II", 1, 1)) + _message(_READY, _IDLE))

    def _lend(self, asked: bytes) -> None:
        session = self.kept.pop() if self.kept else self.server.borrow()
        # libpq has logged in; the conversation goes on over its socket.
        with socket.socket(fileno=os.dup(session.fileno())) as server:
            server.setblocking(True)
            while True:
                server.sendall(asked)
                if self._answered(server) == _IDLE:
                    break
                asked = self.request.recv(1_000_000)
                if not asked:
                    raise EOFError
        self.loans += 1
        (self.kept if self.loans < self.server.loyalty else self.server.idle).append(session)

    def _answered(self, server: socket.socket) -> bytes:
        """Pass the answer on; return the state of the transaction after it."""
        while True:
            head = _receive(server, 5)
            body = _receive(server, struct.unpack("!I", head[1:])[0] - 4)
            self.request.sendall(head + body)
            if head[:1] == _READY:
                return body

    def _exactly(self, count: int) -> bytes:
        return _receive(self.request, count)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@contextlib.contextmanager
def line_to(settings: dict[str, str]) -> Iterator[tuple[Line, dict[str, str]]]:
    """Run a line to a database; give it with the settings that lead through it."""
    line = Line((settings["PGHOST"], int(settings["PGPORT"])))
    try:
        yield line, {**settings, "PGHOST": LOCALHOST, "PGPORT": str(line.port)}
    finally:
        line.close()


@contextlib.contextmanager
def transaction_pooler(settings: dict[str, str], loyalty: int = 0) -> Iterator[dict[str, str]]:
    """Run a pooler before a database; give the settings that lead through it.

    For so many loans as `loyalty` says, each client gets the session that it had before.
    """
    with _Pool((LOCALHOST, 0), _Client) as pool:
        pool.settings, pool.idle, pool.loyalty = settings, [], loyalty
        thread = threading.Thread(target=pool.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield {**settings, "PGHOST": LOCALHOST, "PGPORT": str(pool.server_address[1])}
        finally:
            pool.shutdown()
            thread.join(10)
            for session in pool.idle:
                session.close()

"""A publisher on 127.0.0.1 that misbehaves on purpose: a real HTTP server that follows a script.

Within `with publishing() as publisher:` say `publisher.publish("datasets.csv", body, rows=3)` and
`publisher.script("datasets.csv", Answer(status=503), PUBLISHED)`; then `{publisher.base}/learn/data/datasets.csv`
answers 503 once and with the file ever after, and `publisher.asked("datasets.csv")` counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PREFIX = "/learn/data/"
CERTIFICATE = Path(__file__).with_name("publisher.pem")
"""Certificate and key of 127.0.0.1, signed by itself, for tests alone."""


@dataclass(frozen=True)
class Answer:
    """One answer. Sizes are bytes of the body, times seconds; what is not said is as a good server does it."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """None: the published file."""
    length: int | None = None
    """What Content-Length says in place of the truth; -1: nothing, the body ends where the connection does."""
    chunked: bool = False
    cut_at: int | None = None
    """The connection is closed after so much of the body."""
    reset_at: int | None = None
    """The connection is reset after so much of the body."""
    stall_at: int | None = None
    """Nothing more comes after so much of the body, and the connection stays open."""
    drip: float | None = None
    """The body comes byte by byte, at this interval."""
    drip_headers: float | None = None
    """The headers come byte by byte, at this interval."""
    endless: bool = False
    """The body is repeated for ever."""
    raw: bytes | None = None
    """These bytes in place of an HTTP answer."""


PUBLISHED = Answer()


@dataclass(frozen=True)
class Request:
    """What was asked; `headers` have lower-case names."""

    path: str
    headers: Mapping[str, str]


class PublishingServer:
    """What is published, the script, what was asked. A name stands below `/learn/data/` unless it begins with `/`."""

    def __init__(self, scheme: str, port: int) -> None:
        self.base = f"{scheme}://127.0.0.1:{port}"
        self.files: dict[str, bytes] = {}
        self.tags = True
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._listed: dict[str, Any] = {}
        self._scripts: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()

    def publish(self, name: str, body: bytes, rows: int, sha256: str | None = None) -> str:
        """Publish a file and list it in the manifest; return the digest that is listed there."""
        digest = sha256 or hashlib.sha256(body).hexdigest()
        self._listed[name] = {"sha256": digest, "rows": rows}
        self.files[PREFIX + name] = body
        self.files[PREFIX + "manifest.json"] = json.dumps({"files": self._listed}).encode()
        return digest

    def publish_manifest(self, body: bytes) -> None:
        self.files[PREFIX + "manifest.json"] = body

    def script(self, name: str, *answers: Answer) -> None:
        """Answer the coming requests for a name in this order, the last answer ever after."""
        self._scripts[_path(name)] = list(answers)

    def asked(self, name: str) -> int:
        return sum(request.path == _path(name) for request in self.requests)

    def names(self) -> Counter[str]:
        """Return how often each path was asked for."""
        return Counter(request.path for request in self.requests)

    def next_answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get(request.path, [PUBLISHED])
            return script.pop(0) if len(script) > 1 else script[0]


def _path(name: str) -> str:
    return name if name.startswith("/") else PREFIX + name


@contextlib.contextmanager
def publishing(*, tls: bool = False) -> Iterator[PublishingServer]:
    """Serve on a free port until the block is left; answers that still go on are broken off then."""
    with _Listener(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.script = PublishingServer("https" if tls else "http", server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.script
        finally:
            server.script.stopping.set()
            server.shutdown()
            thread.join(10)


def publish_folder(folder: Path, name: str, body: bytes, rows: int) -> str:
    """Publish one file as `folder`/learn/data/`name` with its manifest; return the file URL of `folder`."""
    data = folder / "learn" / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / name).write_bytes(body)
    entry = {"sha256": hashlib.sha256(body).hexdigest(), "rows": rows}
    (data / "manifest.json").write_text(json.dumps({"files": {name: entry}}))
    return folder.as_uri()


class _Listener(ThreadingHTTPServer):
    script: PublishingServer


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        script = self.server.script
        request = Request(self.path, {name.lower(): value for name, value in self.headers.items()})
        answer = script.next_answer(request)
        body = script.files.get(self.path) if answer.body is None else answer.body
        if body is None:
            body = b"" if answer.status != 200 else b"not found\n"
            answer = Answer(status=404) if answer.status == 200 else answer
        with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError):
            self._send(answer, body, script.stopping)

    def do_HEAD(self) -> None:
        """Answer with an entity tag of what is published, a strong one unless `tags` is off."""
        script = self.server.script
        body = script.files.get(self.path)
        script.requests.append(Request(f"HEAD {self.path}", {}))
        self.send_response(200 if body is not None else 404)
        if body is not None:
            self.send_header("ETag", f'{"" if script.tags else "W/"}"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, answer: Answer, body: bytes, stopping: threading.Event) -> None:
        if answer.raw is not None:
            self.close_connection = True
            self.wfile.write(answer.raw)
            return
        self._send_head(answer, body, stopping)
        if answer.status == 304:
            return
        ends = [at for at in (answer.cut_at, answer.reset_at, answer.stall_at) if at is not None]
        part = body[: min(ends)] if ends else body
        self._send_body(answer, part, stopping)
        if answer.stall_at is not None:
            stopping.wait(60)
        if answer.reset_at is not None:
            # A socket that is closed without lingering sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if ends or answer.length is not None or answer.endless:
            self.close_connection = True

    def _send_head(self, answer: Answer, body: bytes, stopping: threading.Event) -> None:
        head = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('Unknown',))[0]}"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.chunked:
            head.append("Transfer-Encoding: chunked")
        elif answer.length is None and answer.status != 304 and not answer.endless:
            head.append(f"Content-Length: {len(body)}")
        elif answer.length is not None and answer.length >= 0:
            head.append(f"Content-Length: {answer.length}")
        data = ("\r\n".join(head) + "\r\n\r\n").encode("latin-1")
        self._write(data, answer.drip_headers, stopping)

    def _send_body(self, answer: Answer, body: bytes, stopping: threading.Event) -> None:
        if not answer.chunked:
            self._write(body, answer.drip, stopping)
            while answer.endless and not stopping.is_set():
                self._write(body, answer.drip, stopping)
            return
        for start in range(0, len(body), 100):
            block = body[start : start + 100]
            self.wfile.write(b"%x\r\n" % len(block) + block + b"\r\n")
        if answer.cut_at is None:
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, data: bytes, interval: float | None, stopping: threading.Event) -> None:
        if interval is None:
            self.wfile.write(data)
            return
        for byte in data:
            self.wfile.write(bytes([byte]))
            if stopping.wait(interval):
                raise ConnectionAbortedError

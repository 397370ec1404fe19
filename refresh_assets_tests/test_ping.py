"""Calling a dead man's switch: the right address, the reason, bounded in time, and never an exception."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest

from refresh_assets.alerts import ping as module
from refresh_assets.alerts.ping import ping

ENV = {"HOME": "/nonexistent", "PGPASSWORD": "Tr0ub4dor"}
SECRET = "/ping/7f3a-s3cret"


@dataclass
class Watcher:
    """A dead man's switch: the statuses it answers with, the last one for ever, and what it was told."""

    base: str
    statuses: list[int]
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def watching(*statuses: int, hang: bool = False) -> Iterator[Watcher]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            watcher.seen.append((self.command, self.path, body))
            if hang:
                watcher.stopping.wait(30)
                return
            status = watcher.statuses.pop(0) if len(watcher.statuses) > 1 else watcher.statuses[0]
            self.send_response(status)
            if status in (301, 307):
                self.send_header("Location", "/elsewhere")
                watcher.statuses = [200]
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")

        do_GET = do_POST = answer  # noqa: N815 - the server's words

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        watcher = Watcher(f"http://127.0.0.1:{server.server_port}", list(statuses or (200,)))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield watcher
        finally:
            watcher.stopping.set()
            server.shutdown()
            thread.join(10)


@pytest.mark.parametrize(("state", "path"), [("start", "/start"), ("success", ""), ("fail", "/fail")])
def test_each_state_has_its_address(state: Literal["start", "success", "fail"], path: str) -> None:
    with watching() as watcher:
        assert ping(watcher.base + SECRET, state, env=ENV) is None
    assert watcher.seen == [("GET", SECRET + path, "")]


@pytest.mark.parametrize(
    ("address", "called"),
    [("/x/", "/x/fail"), ("/x?create=1", "/x/fail?create=1"), ("/x%2Fy", "/x%2Fy/fail"), ("", "/fail")],
)
def test_the_state_is_added_to_the_path(address: str, called: str) -> None:
    with watching() as watcher:
        assert ping(watcher.base + address, "fail", env=ENV) is None
    assert watcher.seen == [("GET", called, "")]


def test_the_reason_is_sent_without_passwords_and_bounded() -> None:
    with watching() as watcher:
        assert ping(watcher.base, "fail", "Tr0ub4dor: Köln\x00\udc80\n" + "x" * 1_000_000, ENV) is None
    ((method, _path, body),) = watcher.seen
    assert method == "POST"
    assert body.startswith("***: Köln\\x00\\udc80\nxxx")
    assert len(body) < 11_000


def test_a_fault_that_passes_is_tried_again() -> None:
    with watching(503, 200) as watcher:
        assert ping(watcher.base, "success", env=ENV) is None
    assert len(watcher.seen) == 2


def test_a_redirect_is_followed() -> None:
    with watching(301) as watcher:
        assert ping(watcher.base, "success", env=ENV) is None
    assert watcher.seen[-1][1] == "/elsewhere"


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (500, 2), (429, 2)])
def test_a_refusal_is_told_with_its_status_and_without_the_address(status: int, attempts: int) -> None:
    with watching(status) as watcher:
        problem = ping(watcher.base + SECRET, "success", env=ENV)
    assert problem == f"the address in ALERT_PING_URL answered with status {status}"
    assert len(watcher.seen) == attempts


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1{SECRET}",
        f"http://watcher.invalid{SECRET}",
        f"ftp://x{SECRET}",
        "",
        "http://[",
        "\udc80",
    ],
    ids=["nobody listens", "no such host", "no such scheme", "empty", "no address", "not UTF-8"],
)
def test_whatever_is_wrong_is_told_and_never_raised(url: str) -> None:
    problem = ping(url, "start", env=ENV)
    assert problem is not None
    assert problem.startswith("the address in ALERT_PING_URL was not reached: ")
    assert "s3cret" not in problem


def test_a_watcher_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.5)
    begun = time.monotonic()
    with watching(hang=True) as watcher:
        problem = ping(watcher.base + SECRET, "success", env=ENV)
        assert time.monotonic() - begun < 5
    assert problem == "the address in ALERT_PING_URL was not reached: time-out"

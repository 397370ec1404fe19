"""Everything that an HTTP server can do wrong, done by a real one."""

from __future__ import annotations

import gzip
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.cache_files import CacheError
from refresh_assets.published.publisher.event_loop import run
from refresh_assets.published.publisher.transfer import FetchError
from refresh_assets_tests.fetch_fixtures import BODY, NAME, error_of, fetch, publisher
from refresh_assets_tests.publisher import (
    PREFIX,
    PUBLISHED,
    Answer,
    PublishingServer,
)

pytest_plugins = ["refresh_assets_tests.fetch_fixtures"]
pytestmark = pytest.mark.usefixtures("no_proxies")


# What is transient


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_transient_answer_is_followed_by_another_attempt(server: PublishingServer, cache: Cache, status: int) -> None:
    server.script(NAME, Answer(status=status), PUBLISHED)
    assert fetch(server, cache).downloaded


@pytest.mark.parametrize(
    "fault",
    [
        Answer(cut_at=100),
        Answer(cut_at=100, chunked=True),
        Answer(reset_at=0),
        Answer(reset_at=100),
        Answer(raw=b""),
        Answer(raw=b"SSH-2.0-OpenSSH\r\n"),
        Answer(raw=b"HTTP/1.1 200"),
        Answer(length=len(BODY) + 10),
        Answer(body=gzip.compress(BODY)[:-5], headers={"Content-Encoding": "gzip"}),
    ],
    ids=["cut", "cut chunks", "reset", "reset in the body", "nothing", "no HTTP", "half a line", "longer", "cut gzip"],
)
def test_a_broken_answer_is_followed_by_another_attempt(server: PublishingServer, cache: Cache, fault: Answer) -> None:
    server.script(NAME, fault, fault, PUBLISHED)
    assert fetch(server, cache).file.path.read_bytes() == BODY
    assert server.asked(NAME) == 3


def test_attempts_are_bounded(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=503))
    text = error_of(server, cache)
    assert f"{server.base}{PREFIX}{NAME}" in text
    assert "503" in text
    assert "4 attempts were made" in text
    assert server.asked(NAME) == 4


def test_a_short_body_is_told_with_what_came(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(cut_at=300))
    text = error_of(server, cache)
    assert "cut short" in text
    assert "300 bytes" in text
    assert str(len(BODY)) in text


def test_a_cut_chunked_body_is_told(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(cut_at=300, chunked=True))
    assert "cut short" in error_of(server, cache)


def test_a_body_without_a_length_that_is_cut_does_not_match_its_digest(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(cut_at=300, length=-1))
    assert "300 bytes" in error_of(server, cache)


def test_a_body_longer_than_announced_does_not_match_its_digest(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(length=300))
    assert "300 bytes" in error_of(server, cache)


def test_a_refused_connection_is_told_with_the_address(cache: Cache) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            FetchError, match=rf"{base}/learn/data/manifest\.json: the connection cannot be made .Conn.* refused"
        ):
            publisher(base, cache).manifest()


def test_a_host_that_does_not_exist_is_told(cache: Cache) -> None:
    with pytest.raises(FetchError, match=r"http://publisher\.invalid/learn"):
        publisher("http://publisher.invalid", cache).manifest()


# Waiting as the server asks


def test_retry_after_is_waited_for(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=429, headers={"Retry-After": "1"}), PUBLISHED)
    began = time.monotonic()
    fetch(server, cache)
    assert time.monotonic() - began >= 1


def test_a_date_to_retry_after_is_waited_for(server: PublishingServer, cache: Cache) -> None:
    at = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=2)
    server.script(NAME, Answer(status=503, headers={"Retry-After": format_datetime(at, usegmt=True)}), PUBLISHED)
    fetch(server, cache)
    assert datetime.now(timezone.utc) >= at


@pytest.mark.parametrize("value", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT", "9" * 50])
def test_a_wait_beyond_the_deadline_fails_at_once(server: PublishingServer, cache: Cache, value: str) -> None:
    server.script(NAME, Answer(status=503, headers={"Retry-After": value}))
    began = time.monotonic()
    text = error_of(server, cache)
    assert time.monotonic() - began < 10
    assert "503" in text
    assert "REFRESH_HTTP_TIMEOUT allows 20 s" in text
    assert server.asked(NAME) == 1


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5e", "٣"])
def test_a_retry_after_that_says_nothing_is_passed_over(server: PublishingServer, cache: Cache, value: str) -> None:
    server.script(NAME, Answer(status=503, headers={"Retry-After": value.encode().decode("latin-1")}), PUBLISHED)
    assert fetch(server, cache).downloaded


# What is final


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (201, "201"),
        (204, "204"),
        (206, "part of the file that nobody asked for"),
        (304, "not modified, which nobody asked for"),
        (400, "400"),
        (401, "LEARN_BASE may carry them"),
        (403, "403"),
        (404, "not published there"),
        (410, "no longer published"),
        (501, "501"),
    ],
)
def test_any_other_answer_than_the_file_is_told_and_final(
    server: PublishingServer, cache: Cache, status: int, words: str
) -> None:
    server.script(NAME, Answer(status=status, length=0 if status == 204 else None))
    text = error_of(server, cache)
    assert words in text
    assert str(status) in text
    assert f"{server.base}{PREFIX}{NAME}" in text
    assert server.asked(NAME) == 1


def test_a_missing_manifest_is_told_by_its_address(server: PublishingServer, cache: Cache) -> None:
    server.script("manifest.json", Answer(status=404))
    assert f"{server.base}{PREFIX}manifest.json" in error_of(server, cache)


# Encodings


def test_a_gzip_encoded_body_is_decoded_before_hashing(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(body=gzip.compress(BODY), headers={"Content-Encoding": "gzip"}))
    assert fetch(server, cache).file.path.read_bytes() == BODY


def test_a_gzip_encoded_body_may_have_several_members_and_padding(server: PublishingServer, cache: Cache) -> None:
    packed = gzip.compress(BODY[:100]) + gzip.compress(BODY[100:]) + b"\0" * 50
    server.script(NAME, Answer(body=packed, headers={"Content-Encoding": "x-GZIP"}, chunked=True))
    assert fetch(server, cache).file.path.read_bytes() == BODY


def test_a_gzip_body_that_is_cut_is_told(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(body=gzip.compress(BODY)[:-1], headers={"Content-Encoding": "gzip"}))
    assert "gzip body was cut short" in error_of(server, cache)


def test_a_body_that_is_not_the_gzip_it_claims_is_told(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(headers={"Content-Encoding": "gzip"}))
    assert "not the gzip data that Content-Encoding says" in error_of(server, cache)


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_another_encoding_is_told_by_name(server: PublishingServer, cache: Cache, encoding: str) -> None:
    server.script(NAME, Answer(headers={"Content-Encoding": encoding}))
    assert encoding in error_of(server, cache)


@pytest.mark.parametrize("encoding", ["identity", "UTF-8", "aws-chunked", "none", ""])
def test_an_encoding_that_packs_nothing_is_passed_over(server: PublishingServer, cache: Cache, encoding: str) -> None:
    server.script(NAME, Answer(headers={"Content-Encoding": encoding}))
    assert fetch(server, cache).downloaded


def test_a_gzip_body_that_unpacks_beyond_the_limit_is_refused(server: PublishingServer, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 20, 100_000)
    server.script(NAME, Answer(body=gzip.compress(b"0" * 5_000_000), headers={"Content-Encoding": "gzip"}))
    with pytest.raises(CacheError, match="REFRESH_CACHE_BYTES"):
        fetch(server, cache)
    assert cache.list() == ()


# Size


def test_a_file_announced_too_large_is_refused_before_it_comes(server: PublishingServer, tmp_path: Path) -> None:
    server.script(NAME, Answer(length=10**12, stall_at=0))
    with pytest.raises(CacheError, match="1000000000000 bytes or more; REFRESH_CACHE_BYTES"):
        fetch(server, Cache(tmp_path / "cache", 20, 100_000))


def test_a_body_that_never_ends_is_refused_at_the_limit(server: PublishingServer, tmp_path: Path) -> None:
    server.script(NAME, Answer(endless=True))
    with pytest.raises(CacheError, match="REFRESH_CACHE_BYTES"):
        fetch(server, Cache(tmp_path / "cache", 20, 100_000))


# Time


@pytest.mark.parametrize(
    "fault",
    [Answer(drip=0.1), Answer(drip_headers=0.1), Answer(stall_at=300), Answer(stall_at=0)],
    ids=["slow body", "slow headers", "body stops", "body never begins"],
)
def test_the_deadline_bounds_all_of_it(server: PublishingServer, cache: Cache, fault: Answer) -> None:
    server.script(NAME, fault)
    began = time.monotonic()
    text = error_of(server, cache, timeout=2)
    assert time.monotonic() - began < 15
    assert text.startswith(f"time-out: {server.base}{PREFIX}{NAME} was not complete after 2 s")
    assert "bytes came" in text


def test_the_deadline_holds_over_all_attempts(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=503), Answer(drip=0.1))
    text = error_of(server, cache, timeout=3)
    assert "time-out" in text
    assert "503" in text


def test_the_bytes_that_came_in_time_are_told(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(stall_at=300))
    assert "300 bytes came" in error_of(server, cache, timeout=2)


def test_a_server_that_never_answers_is_given_up(cache: Cache) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(FetchError, match="time-out"):
            publisher(base, cache, timeout=0.5).manifest()


def test_a_name_server_that_does_not_answer_does_not_hold_the_deadline(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name server can be made silent from here, so the look-up itself is made to hang."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(60))
    began = time.monotonic()
    with pytest.raises(FetchError, match="time-out"):
        publisher("http://slow.example", cache, timeout=0.5).manifest()
    answered.set()
    assert time.monotonic() - began < 5


def test_ctrl_c_in_the_middle_ends_at_once_and_leaves_nothing(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(stall_at=300))
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from refresh_assets.base_url import BaseUrl\n"
        "from refresh_assets.published.publisher.cache import Cache\n"
        "from refresh_assets.published.publisher.fetch import Publisher\n"
        "progress = lambda done, total: print(done, flush=True)\n"
        "Publisher(BaseUrl.parse(sys.argv[1]), 60, Cache(Path(sys.argv[2]), 20, 10**6), progress).file(sys.argv[3])"
    )
    command = [sys.executable, "-c", script, server.base, str(cache.folder), NAME]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "300\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert [path.name for path in cache.folder.iterdir()] == [".lock"]


def test_work_that_raises_leaves_no_loop_open() -> None:
    async def work() -> None:
        raise RefreshError("as it is")

    with pytest.raises(RefreshError, match="as it is"):
        run(work(), 5)

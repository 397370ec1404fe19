"""A publisher, a cache, and what a fetch from one to the other gives: shared by the tests of fetching."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.fetch import Fetched, Publisher
from refresh_assets.published.publisher.transfer import FetchError, Progress
from refresh_assets_tests.publisher import PublishingServer, publishing

NAME = "datasets.csv"
BODY = b"key,title\n" + b"".join(b"%d,Pond survey %d\n" % (i, i) for i in range(50))
NEWER = BODY + b"50,Lichen transects\n"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[PublishingServer]:
    with publishing() as server:
        server.publish(NAME, BODY, 50)
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 20, 10_000_000)


def publisher(base: str, cache: Cache, timeout: float = 20, progress: Progress | None = None) -> Publisher:
    return Publisher(BaseUrl.parse(base), timeout, cache, progress, pause=0.01)


def fetch(server: PublishingServer, cache: Cache, timeout: float = 20) -> Fetched:
    return publisher(server.base, cache, timeout).file(NAME)


def error_of(server: PublishingServer, cache: Cache, timeout: float = 20) -> str:
    """Return the error of a fetch, after which nothing is kept."""
    with pytest.raises(FetchError) as caught:
        fetch(server, cache, timeout)
    assert cache.list() == ()
    assert not [path for path in cache.folder.glob("*") if path.name != ".lock"]
    return str(caught.value)


def basic(login: bytes) -> str:
    return "Basic " + base64.b64encode(login).decode()


def with_login(server: PublishingServer, login: str) -> str:
    return server.base.replace("://", f"://{login}@")

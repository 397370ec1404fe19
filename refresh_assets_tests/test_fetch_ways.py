"""The ways to a publisher: redirects, logins, TLS and proxies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.transfer import FetchError
from refresh_assets_tests.fetch_fixtures import BODY, NAME, basic, error_of, fetch, publisher, with_login
from refresh_assets_tests.publisher import (
    CERTIFICATE,
    PREFIX,
    Answer,
    PublishingServer,
    publishing,
)

pytest_plugins = ["refresh_assets_tests.fetch_fixtures"]
pytestmark = pytest.mark.usefixtures("no_proxies")


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(server: PublishingServer, cache: Cache, status: int) -> None:
    for name in ("manifest.json", NAME):
        server.files[f"/moved/{name}"] = server.files[PREFIX + name]
        server.script(name, Answer(status=status, headers={"Location": f"/moved/{name}"}))
    assert fetch(server, cache).downloaded


def test_a_relative_redirect_is_followed(server: PublishingServer, cache: Cache) -> None:
    server.files[PREFIX + "2026/file.csv"] = BODY
    server.script(NAME, Answer(status=302, headers={"Location": "2026/file.csv#part"}))
    assert fetch(server, cache).downloaded


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://data.example/x", "data:text/csv,a", "javascript:1", "http://h:x/", "http://[/"],
)
def test_a_redirect_that_leaves_http_is_refused(server: PublishingServer, cache: Cache, location: str) -> None:
    server.script(NAME, Answer(status=302, headers={"Location": location}))
    text = error_of(server, cache)
    assert "redirected to" in text
    assert server.asked(NAME) == 1


def test_a_redirect_to_the_very_file_on_disk_is_refused(server: PublishingServer, cache: Cache, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(BODY)
    server.script(NAME, Answer(status=302, headers={"Location": (tmp_path / NAME).as_uri()}))
    assert "not an http or https address: refused" in error_of(server, cache)


def test_redirects_in_a_circle_are_bounded(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=302, headers={"Location": f"{PREFIX}{NAME}"}))
    assert "redirected more than 10 times" in error_of(server, cache)
    assert server.asked(NAME) == 11


def test_a_redirect_to_nowhere_is_told(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=302))
    assert "302" in error_of(server, cache)


def test_an_error_behind_a_redirect_names_both_addresses_and_no_signature(
    server: PublishingServer, cache: Cache
) -> None:
    server.script(NAME, Answer(status=302, headers={"Location": "/moved/x?signature=s3cr3t"}))
    text = error_of(server, cache)
    assert f"{server.base}{PREFIX}{NAME}" in text
    assert f"{server.base}/moved/x" in text
    assert "s3cr3t" not in text


# Logins


def test_a_login_is_sent_decoded_and_shown_nowhere(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=401))
    with pytest.raises(FetchError) as caught:
        publisher(with_login(server, "fetcher:s3%40cr3t"), cache).file(NAME)
    assert {request.headers["authorization"] for request in server.requests} == {basic(b"fetcher:s3@cr3t")}
    assert "s3" not in str(caught.value)
    assert "fetcher" not in str(caught.value)


def test_a_login_is_not_kept_in_the_cache(server: PublishingServer, cache: Cache) -> None:
    fetched = publisher(with_login(server, "fetcher:s3cr3t"), cache).file(NAME)
    assert "s3cr3t" not in (cache.folder / f"{fetched.file.sha256}.json").read_text()


def test_a_login_follows_a_redirect_within_the_publisher(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(status=302, headers={"Location": "/moved"}))
    server.files["/moved"] = BODY
    publisher(with_login(server, "fetcher:s3cr3t"), cache).file(NAME)
    assert server.requests[-1].headers["authorization"] == basic(b"fetcher:s3cr3t")


def test_a_login_does_not_follow_a_redirect_elsewhere(server: PublishingServer, cache: Cache) -> None:
    with publishing() as other:
        other.files["/file"] = BODY
        location = with_login(other, "someone:else") + "/file"
        server.script(NAME, Answer(status=302, headers={"Location": location}))
        assert publisher(with_login(server, "fetcher:s3cr3t"), cache).file(NAME).downloaded
        assert "authorization" not in other.requests[0].headers


# TLS


@pytest.fixture
def secure_server() -> Iterator[PublishingServer]:
    with publishing(tls=True) as server:
        server.publish(NAME, BODY, 50)
        yield server


def test_a_certificate_of_a_known_authority_is_trusted(
    secure_server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert fetch(secure_server, cache).downloaded


def test_a_certificate_of_an_unknown_authority_is_refused_at_once(
    secure_server: PublishingServer, cache: Cache
) -> None:
    text = error_of(secure_server, cache)
    assert "certificate is not trusted" in text
    assert "SSL_CERT_FILE" in text


def test_a_certificate_of_another_host_is_refused(
    secure_server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with pytest.raises(FetchError, match="certificate is not trusted"):
        publisher(secure_server.base.replace("127.0.0.1", "localhost"), cache).manifest()


def test_an_unreadable_list_of_authorities_is_told(
    secure_server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    assert "SSL_CERT_FILE" in error_of(secure_server, cache)


def test_a_server_that_speaks_no_tls_is_told(server: PublishingServer, cache: Cache) -> None:
    with pytest.raises(FetchError, match=r"https://127.*the connection cannot be made"):
        publisher(server.base.replace("http:", "https:"), cache).manifest()


def test_a_redirect_from_https_to_http_is_refused_where_a_login_is_in_use(
    secure_server: PublishingServer, server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    secure_server.script(NAME, Answer(status=302, headers={"Location": f"{server.base}{PREFIX}{NAME}"}))
    assert fetch(secure_server, cache).downloaded
    with pytest.raises(FetchError, match="from https to http://"):
        publisher(with_login(secure_server, "fetcher:s3cr3t"), Cache(cache.folder / "other", 20, 10**6)).file(NAME)


# Proxies


def test_the_proxy_of_the_environment_is_used(
    server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", with_login(server, "me:pr0xy"))
    for name in ("manifest.json", NAME):
        server.files[f"http://data.example{PREFIX}{name}"] = server.files[PREFIX + name]
    assert publisher("http://data.example", cache).file(NAME).downloaded
    assert server.requests[0].headers["proxy-authorization"] == basic(b"me:pr0xy")


def test_a_host_that_no_proxy_names_is_asked_itself(
    server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert fetch(server, cache).downloaded


@pytest.mark.parametrize("proxy", ["socks5://me:pr0xy@127.0.0.1:1", "gopher://me:pr0xy@h", "http://me:pr0xy@h:port"])
def test_a_proxy_that_cannot_be_used_is_told_without_its_value(
    server: PublishingServer, cache: Cache, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    text = error_of(server, cache)
    assert "HTTP_PROXY" in text
    assert "pr0xy" not in text

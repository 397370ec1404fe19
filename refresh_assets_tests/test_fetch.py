"""From an address to a verified file: what is asked for, and what happens when file and manifest disagree."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.manifest import ManifestError
from refresh_assets_tests.fetch_fixtures import BODY, NAME, NEWER, error_of, fetch, publisher
from refresh_assets_tests.publisher import (
    PREFIX,
    PUBLISHED,
    Answer,
    PublishingServer,
)

pytest_plugins = ["refresh_assets_tests.fetch_fixtures"]
pytestmark = pytest.mark.usefixtures("no_proxies")


# What is fetched, and what is not


def test_a_file_is_downloaded_and_verified(server: PublishingServer, cache: Cache) -> None:
    fetched = fetch(server, cache)
    assert fetched.downloaded
    assert fetched.file.path.read_bytes() == BODY
    assert fetched.entry.sha256 == fetched.file.sha256 == hashlib.sha256(BODY).hexdigest()
    assert fetched.entry.rows == fetched.file.rows == 50
    assert fetched.manifest is not None
    assert fetched.seconds > 0


def test_an_unchanged_file_is_not_fetched_again(server: PublishingServer, cache: Cache) -> None:
    fetch(server, cache)
    again = fetch(server, cache)
    assert not again.downloaded
    assert again.file.path.read_bytes() == BODY
    assert (server.asked("manifest.json"), server.asked(NAME)) == (2, 1)


def test_with_an_entry_at_hand_the_manifest_is_not_fetched(server: PublishingServer, cache: Cache) -> None:
    entry = publisher(server.base, cache).manifest().entry(NAME)
    fetched = publisher(server.base, cache).file(NAME, entry)
    assert fetched.manifest is None
    assert server.asked("manifest.json") == 1


def test_a_new_count_for_the_same_bytes_is_taken_over(server: PublishingServer, cache: Cache) -> None:
    fetch(server, cache)
    server.publish(NAME, BODY, 49)
    assert fetch(server, cache).file.rows == 49
    assert server.asked(NAME) == 1


def test_only_the_named_file_is_ever_asked_for(server: PublishingServer, cache: Cache) -> None:
    for name in ("other.csv", "../../../etc/passwd", "file:///etc/passwd"):
        server.publish(name, b"x", 1)
    fetch(server, cache)
    assert set(server.names()) == {f"{PREFIX}manifest.json", f"{PREFIX}{NAME}"}


def test_the_client_says_what_it_is(server: PublishingServer, cache: Cache) -> None:
    fetch(server, cache)
    for request in server.requests:
        assert request.headers["user-agent"].startswith("refresh-assets/")
        assert request.headers["accept-encoding"] == "gzip"
        assert "authorization" not in request.headers


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_base_with_a_path_is_kept_with_and_without_a_slash(
    server: PublishingServer, cache: Cache, slash: str
) -> None:
    for name in ("manifest.json", NAME):
        server.files[f"/pub/weekly{PREFIX}{name}"] = server.files.pop(PREFIX + name)
    assert publisher(f"{server.base}/pub/weekly{slash}", cache).file(NAME).downloaded


def test_a_name_with_blanks_and_signs_is_encoded_in_the_address(server: PublishingServer, cache: Cache) -> None:
    server.publish("a b#c?d%20é.csv", BODY, 50)
    server.files[PREFIX + "a%20b%23c%3Fd%2520%C3%A9.csv"] = BODY
    assert publisher(server.base, cache).file("a b#c?d%20é.csv").downloaded


def test_progress_is_told(server: PublishingServer, cache: Cache) -> None:
    seen: list[tuple[int, int | None]] = []
    publisher(server.base, cache, progress=lambda done, total: seen.append((done, total))).file(NAME)
    assert seen[-1] == (len(BODY), len(BODY))


def test_a_large_file_arrives_whole(server: PublishingServer, cache: Cache) -> None:
    body = hashlib.shake_256(b"large").digest(3_000_000)
    server.publish(NAME, body, 1)
    assert fetch(server, cache).file.path.read_bytes() == body


# Manifest and file disagree


def test_a_file_that_was_changed_after_its_manifest_is_fetched_with_the_newer_one(
    server: PublishingServer, cache: Cache
) -> None:
    old = server.files[PREFIX + "manifest.json"]
    server.publish(NAME, NEWER, 51)
    server.script("manifest.json", Answer(body=old), PUBLISHED)
    fetched = fetch(server, cache)
    assert fetched.file.path.read_bytes() == NEWER
    assert fetched.entry.rows == 51
    assert fetched.manifest is not None
    assert fetched.manifest.entry(NAME) == fetched.entry


def test_caches_on_the_way_are_asked_for_what_is_new_after_a_mismatch(server: PublishingServer, cache: Cache) -> None:
    server.script(NAME, Answer(body=NEWER), PUBLISHED)
    fetch(server, cache)
    asked = [(request.path, request.headers.get("cache-control")) for request in server.requests]
    assert [how for _, how in asked] == [None, None, "no-cache", "no-cache"]


def test_after_a_mismatch_a_file_that_is_in_the_cache_already_is_not_fetched(
    server: PublishingServer, cache: Cache
) -> None:
    fetch(server, cache)
    before = server.files[PREFIX + "manifest.json"]
    server.publish(NAME, NEWER, 51)
    after = server.files[PREFIX + "manifest.json"]
    server.script("manifest.json", Answer(body=after), Answer(body=before))
    server.script(NAME, Answer(body=BODY))
    fetched = fetch(server, cache)
    assert not fetched.downloaded
    assert server.asked(NAME) == 2


def test_a_lasting_mismatch_is_told_with_both_digests_after_three_rounds(
    server: PublishingServer, cache: Cache
) -> None:
    server.publish(NAME, BODY, 50, sha256="ab" * 32)
    text = error_of(server, cache)
    assert NAME in text
    assert "ab" * 32 in text
    assert hashlib.sha256(BODY).hexdigest() in text
    assert (server.asked("manifest.json"), server.asked(NAME)) == (3, 3)


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"\n<!DOCTYPE html><html>Sorry</html>", "HTML"),
        (gzip.compress(BODY), "gzip"),
        (b"", "empty"),
        (BODY.decode().encode("utf-16"), "UTF-16"),
    ],
)
def test_a_mismatch_says_what_the_body_is(server: PublishingServer, cache: Cache, body: bytes, hint: str) -> None:
    server.script(NAME, Answer(body=body))
    text = error_of(server, cache)
    assert hint in text
    assert f"{len(body)} bytes" in text


def test_a_name_that_is_gone_from_the_newer_manifest_is_told(server: PublishingServer, cache: Cache) -> None:
    server.script("manifest.json", PUBLISHED, Answer(body=b'{"files": {}}'))
    server.script(NAME, Answer(body=b"other"))
    with pytest.raises(ManifestError, match="no file is listed"):
        fetch(server, cache)


# The manifest itself


@pytest.mark.parametrize(("body", "words"), [(b"<html>", "HTML"), (b"", "empty"), (b'{"files"', "complete JSON")])
def test_a_body_that_is_no_manifest_is_told(server: PublishingServer, cache: Cache, body: bytes, words: str) -> None:
    server.script("manifest.json", Answer(body=body))
    with pytest.raises(ManifestError, match=rf"manifest\.json.*{words}"):
        fetch(server, cache)
    assert server.asked(NAME) == 0


def test_a_manifest_that_is_too_large_is_not_read(server: PublishingServer, cache: Cache) -> None:
    server.script("manifest.json", Answer(length=100_000_000, body=b" " * 1000, stall_at=1000))
    assert "100000000 bytes" in error_of(server, cache)


def test_a_manifest_that_never_ends_is_not_read(server: PublishingServer, cache: Cache) -> None:
    server.script("manifest.json", Answer(body=b" " * 100_000, endless=True))
    assert "at most 10000000 are read" in error_of(server, cache)


def test_a_gzip_encoded_manifest_is_decoded(server: PublishingServer, cache: Cache) -> None:
    packed = gzip.compress(server.files[PREFIX + "manifest.json"])
    server.script("manifest.json", Answer(body=packed, headers={"Content-Encoding": "gzip"}))
    assert fetch(server, cache).downloaded

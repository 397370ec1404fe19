"""Published files of this machine, and what may stand in their place."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.cache_files import CacheError
from refresh_assets.published.publisher.transfer import FetchError
from refresh_assets_tests.fetch_fixtures import BODY, NAME, publisher
from refresh_assets_tests.publisher import (
    publish_folder,
)

pytest_plugins = ["refresh_assets_tests.fetch_fixtures"]
pytestmark = pytest.mark.usefixtures("no_proxies")


# Files


def test_a_file_url_is_copied_to_the_cache(cache: Cache, tmp_path: Path) -> None:
    base = publish_folder(tmp_path / "pub", NAME, BODY, 50)
    fetched = publisher(base, cache).file(NAME)
    assert fetched.downloaded
    assert fetched.file.path.parent == cache.folder
    (tmp_path / "pub/learn/data" / NAME).write_bytes(b"changed since")
    assert fetched.file.path.read_bytes() == BODY
    assert not publisher(base, cache).file(NAME, fetched.entry).downloaded


def test_a_folder_with_blanks_and_signs_is_found(cache: Cache, tmp_path: Path) -> None:
    base = publish_folder(tmp_path / "a b%20#?ü+", NAME, BODY, 50)
    assert publisher(base + "/", cache).file(NAME).downloaded


def test_a_name_with_blanks_and_signs_is_found(cache: Cache, tmp_path: Path) -> None:
    base = publish_folder(tmp_path, "a b%20#?ü+.csv", BODY, 50)
    assert publisher(base, cache).file("a b%20#?ü+.csv").downloaded


def test_a_folder_whose_name_is_not_utf8_is_found(cache: Cache, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert publisher(publish_folder(folder, NAME, BODY, 50), cache).file(NAME).downloaded


def test_a_file_that_does_not_match_is_told_with_both_digests(cache: Cache, tmp_path: Path) -> None:
    base = publish_folder(tmp_path / "pub", NAME, BODY, 50)
    (tmp_path / "pub/learn/data" / NAME).write_bytes(gzip.compress(BODY))
    with pytest.raises(FetchError, match=hashlib.sha256(BODY).hexdigest()) as caught:
        publisher(base, cache).file(NAME)
    assert "gzip" in str(caught.value)
    assert cache.list() == ()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Return the path of a published file that a test puts something else in place of."""
    publish_folder(tmp_path, NAME, BODY, 50)
    path = tmp_path / "learn/data" / NAME
    path.unlink()
    return path


def error_at(path: Path, cache: Cache, timeout: float = 20) -> str:
    with pytest.raises(FetchError) as caught:
        publisher(path.parents[2].as_uri(), cache, timeout).file(NAME)
    assert str(path) in str(caught.value)
    assert cache.list() == ()
    return str(caught.value)


def test_a_missing_file_is_told(published: Path, cache: Cache) -> None:
    assert "does not exist; LEARN_BASE" in error_at(published, cache)


def test_a_folder_in_its_place_is_told(published: Path, cache: Cache) -> None:
    published.mkdir()
    assert "is a folder" in error_at(published, cache)


def test_a_pipe_in_its_place_is_not_waited_for(published: Path, cache: Cache) -> None:
    os.mkfifo(published)
    assert "is a pipe or a device" in error_at(published, cache)


def test_a_device_in_its_place_is_not_read(published: Path, cache: Cache) -> None:
    published.symlink_to("/dev/zero")
    assert "is a pipe or a device" in error_at(published, cache)


def test_links_in_a_circle_are_told(published: Path, cache: Cache) -> None:
    published.symlink_to(published)
    assert "cannot be read" in error_at(published, cache)


def test_a_file_in_the_place_of_a_folder_is_told(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "learn").write_text("")
    with pytest.raises(FetchError, match="cannot be read"):
        publisher(tmp_path.as_uri(), cache).manifest()


def test_a_file_that_may_not_be_read_is_told(published: Path, cache: Cache) -> None:
    """Root may read everything, so as root this is tried as another account."""
    published.write_bytes(BODY)
    published.chmod(0)
    cache.folder.mkdir()
    if os.geteuid() == 0:
        for folder in (cache.folder, *published.parents):
            if "pytest-of-" in str(folder):
                folder.chmod(folder.stat().st_mode | 0o055)
        os.chown(cache.folder, 65534, -1)
        os.seteuid(65534)
        try:
            text = error_at(published, cache)
        finally:
            os.seteuid(0)
    else:
        text = error_at(published, cache)
    assert "may not be read by this account" in text


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    base = publish_folder(tmp_path, NAME, BODY, 50)
    with pytest.raises(CacheError, match="REFRESH_CACHE_BYTES"):
        publisher(base, Cache(tmp_path / "cache", 20, 100)).file(NAME)


def test_a_file_url_needs_no_http_client(cache: Cache, tmp_path: Path) -> None:
    base = publish_folder(tmp_path, NAME, BODY, 50)
    script = (
        "import sys; from pathlib import Path; from refresh_assets.base_url import BaseUrl\n"
        "from refresh_assets.published.publisher.cache import Cache\n"
        "from refresh_assets.published.publisher.fetch import Publisher\n"
        "Publisher(BaseUrl.parse(sys.argv[1]), 20, Cache(Path(sys.argv[2]), 20, 10**6)).file(sys.argv[3])\n"
        "print(sorted({'httpx', 'tenacity', 'dagster'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, base, str(cache.folder), NAME]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"

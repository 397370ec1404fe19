"""Published files on disk: whole or absent, bounded, shared by processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.publisher.cache import STALE_SECONDS, Cache
from refresh_assets.published.publisher.cache_files import CachedFile, CacheError

BODY = b"key,title\n1,Mosses\n"
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "home" / "cache", max_files=3, max_bytes=1000)


def put(cache: Cache, body: bytes = BODY, name: str = "datasets.csv") -> CachedFile:
    return cache.put(name, 1, "https://data.example/learn/data/datasets.csv", [body[:5], body[5:]])


def used_ago(cache: Cache, file: CachedFile, seconds: float) -> None:
    """Make a file one that was last used so long ago."""
    at = time.time() - seconds
    os.utime(cache.folder / f"{file.sha256}.json", (at, at))


def names(cache: Cache) -> set[str]:
    return {path.name for path in cache.folder.iterdir() if path.name != ".lock"}


def test_a_file_is_kept_under_its_digest(cache: Cache) -> None:
    before = datetime.now(timezone.utc)
    kept = put(cache)
    assert kept.path == cache.folder / SHA
    assert kept.path.read_bytes() == BODY
    assert (kept.name, kept.sha256, kept.rows, kept.bytes) == ("datasets.csv", SHA, 1, len(BODY))
    assert timedelta(0) <= kept.fetched_at - before < timedelta(minutes=1)


def test_a_kept_file_is_found_again(cache: Cache) -> None:
    assert cache.get(SHA) is None
    kept = put(cache)
    assert Cache(cache.folder, 3, 1000).get(SHA) == kept


def test_the_sidecar_says_what_the_file_is_and_whence(cache: Cache) -> None:
    put(cache)
    sidecar = json.loads((cache.folder / f"{SHA}.json").read_text())
    assert {key: sidecar[key] for key in ("name", "sha256", "rows", "bytes", "source")} == {
        "name": "datasets.csv",
        "sha256": SHA,
        "rows": 1,
        "bytes": len(BODY),
        "source": "https://data.example/learn/data/datasets.csv",
    }
    assert datetime.fromisoformat(sidecar["fetched_at"]).utcoffset() == timedelta(0)


def test_the_folder_and_its_files_are_closed_to_others(cache: Cache) -> None:
    cache.folder.mkdir(parents=True, mode=0o755)
    kept = put(cache)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert kept.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "", SHA.upper(), SHA[:-1], f"{SHA}/"])
def test_what_is_no_digest_is_never_looked_up(cache: Cache, sha256: str) -> None:
    put(cache)
    assert cache.get(sha256) is None
    assert names(cache) == {SHA, f"{SHA}.json"}


def test_a_file_that_was_cut_is_absent_and_removed(cache: Cache) -> None:
    put(cache).path.write_bytes(BODY[:-1])
    assert cache.get(SHA) is None
    assert names(cache) == set()


def test_a_file_that_was_changed_but_not_in_size_is_absent_and_removed(cache: Cache) -> None:
    put(cache).path.write_bytes(BODY.replace(b"Mosses", b"Lichen"))
    assert cache.get(SHA) is None
    assert names(cache) == set()


def test_a_file_that_was_only_touched_is_hashed_and_kept(cache: Cache) -> None:
    kept = put(cache)
    os.utime(kept.path, (0, 0))
    assert cache.get(SHA) == kept
    assert cache.get(SHA) == kept


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": "x"}', '{"name": "x", "rows": "many"}'])
def test_a_file_with_a_broken_sidecar_is_absent(cache: Cache, text: str) -> None:
    put(cache)
    (cache.folder / f"{SHA}.json").write_text(text)
    assert cache.get(SHA) is None
    assert cache.list() == ()


def test_a_file_without_its_sidecar_is_absent(cache: Cache) -> None:
    put(cache)
    (cache.folder / f"{SHA}.json").unlink()
    assert cache.get(SHA) is None


def test_the_file_used_last_is_listed_first(cache: Cache) -> None:
    first, second = put(cache), put(cache, b"b")
    used_ago(cache, first, 20)
    used_ago(cache, second, 10)
    assert cache.list() == (second, first)
    cache.get(first.sha256)
    assert cache.list() == (first, second)


def test_the_list_of_a_cache_that_was_never_used_is_empty(cache: Cache) -> None:
    assert cache.list() == ()


def test_the_least_recently_used_goes_when_there_are_too_many(cache: Cache) -> None:
    kept = [put(cache, bytes([i])) for i in range(3)]
    for age, file in enumerate(kept):
        used_ago(cache, file, 10 * (3 - age))
    cache.get(kept[0].sha256)
    newest = put(cache, b"new")
    assert {file.sha256 for file in cache.list()} == {kept[0].sha256, kept[2].sha256, newest.sha256}
    assert not kept[1].path.exists()


def test_the_number_is_bounded_however_fast_files_come(cache: Cache) -> None:
    for i in range(10):
        put(cache, bytes([i]))
    assert len(cache.list()) == 3


def test_the_bytes_are_bounded_too(cache: Cache) -> None:
    for i in range(5):
        put(cache, bytes([i]) * 400)
    assert sum(file.bytes for file in cache.list()) <= 1000
    assert len(cache.list()) == 2


def test_the_file_just_kept_stays_even_if_it_fills_the_cache(cache: Cache) -> None:
    put(cache)
    whole = put(cache, b"x" * 1000)
    assert cache.list() == (whole,)


def test_a_file_that_another_table_may_be_about_to_read_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, max_files=1, max_bytes=1000)
    other = put(cache, b"other", "other.csv")
    kept = put(cache)
    assert set(cache.list()) == {other, kept}


def test_a_file_of_another_table_goes_when_it_was_not_used_for_an_hour(tmp_path: Path) -> None:
    cache = Cache(tmp_path, max_files=1, max_bytes=1000)
    used_ago(cache, put(cache, b"other", "other.csv"), STALE_SECONDS + 1)
    assert cache.list()[0] != put(cache)
    assert len(cache.list()) == 1


def test_a_file_too_large_is_refused_by_the_name_of_the_setting(cache: Cache) -> None:
    with pytest.raises(CacheError, match="1001 bytes or more; REFRESH_CACHE_BYTES allows 1000"):
        put(cache, b"x" * 1001)
    assert names(cache) == set()


def test_a_file_that_breaks_off_leaves_nothing(cache: Cache) -> None:
    def blocks() -> Iterator[bytes]:
        yield BODY
        raise RefreshError("broke off")

    with pytest.raises(RefreshError, match="broke off"):
        cache.put("datasets.csv", 1, "", blocks())
    assert names(cache) == set()


def test_a_file_begun_anew_holds_nothing_of_the_attempt_before(cache: Cache) -> None:
    with cache.incoming() as incoming:
        incoming.write(b"half of an earlier, longer attempt")
        incoming.restart()
        incoming.write(BODY)
        kept = cache.keep(incoming, "datasets.csv", 1, "")
    assert kept.sha256 == SHA
    assert kept.path.read_bytes() == BODY


def test_a_new_count_for_the_same_bytes_is_remembered(cache: Cache) -> None:
    assert cache.describe(put(cache), "datasets.csv", 2).rows == 2
    found = cache.get(SHA)
    assert found is not None
    assert found.rows == 2


def test_leftovers_of_killed_processes_go_after_an_hour(cache: Cache) -> None:
    put(cache)
    old, young, orphan = cache.folder / "incoming-old", cache.folder / "incoming-young", cache.folder / ("0" * 64)
    for path in (old, young, orphan):
        path.write_bytes(b"half")
    for path in (old, orphan):
        os.utime(path, (0, 0))
    put(cache, b"b")
    assert (old.exists(), young.exists(), orphan.exists()) == (False, True, False)


def test_files_of_others_in_the_folder_are_left_alone(cache: Cache) -> None:
    put(cache)
    (cache.folder / "README").write_text("mine")
    os.utime(cache.folder / "README", (0, 0))
    put(cache, b"b")
    assert (cache.folder / "README").exists()


def in_process(cache: Cache, code: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; from pathlib import Path; from refresh_assets.published.publisher.cache import Cache\n"
        f"cache = Cache(Path(sys.argv[1]), {cache.max_files}, {cache.max_bytes})\n{code}"
    )
    command = [sys.executable, "-c", script, str(cache.folder)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_several_processes_at_once_leave_whole_files(cache: Cache) -> None:
    code = "for i in range(20):\n cache.put('d.csv', 1, '', [bytes([i % 5]) * 200]); cache.get('0' * 64); cache.list()"
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(in_process, cache, code) for _ in range(3)]:
            assert done.result().returncode == 0, done.result().stderr
    files = cache.list()
    assert 1 <= len(files) <= 3
    for file in files:
        assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.sha256
    assert names(cache) == {name for file in files for name in (file.sha256, f"{file.sha256}.json")}


def test_a_process_killed_in_the_middle_leaves_no_file(cache: Cache) -> None:
    code = (
        "import os, signal\n"
        "with cache.incoming() as incoming:\n"
        " incoming.write(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert in_process(cache, code).returncode != 0
    assert cache.list() == ()
    assert put(cache).path.exists()


def test_a_full_disk_is_told_and_leaves_nothing_half(tmp_path: Path) -> None:
    """The kernel's limit on a file's size fails a write in its middle, as a full disk does."""
    cache = Cache(tmp_path / "cache", max_files=3, max_bytes=10_000_000)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "from refresh_assets.published.publisher.cache_files import CacheError\n"
        "try:\n cache.put('d.csv', 1, '', [b'x' * 30_000] * 4)\n"
        "except CacheError as error:\n print(error)"
    )
    done = in_process(cache, code)
    assert str(cache.folder) in done.stdout
    assert "REFRESH_HOME" in done.stdout
    assert names(cache) == set()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheError, match=r"file.cache.*REFRESH_HOME"):
        put(Cache(tmp_path / "file" / "cache", 3, 1000))


def test_a_folder_that_cannot_be_locked_is_told(cache: Cache) -> None:
    cache.folder.mkdir(parents=True)
    (cache.folder / ".lock").mkdir()
    with pytest.raises(CacheError, match=r"cannot keep published files in .*see REFRESH_HOME"):
        cache.get("a" * 64)

"""A published file as it goes from asset to asset: in the cache, verified, and found to be sound."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from refresh_assets.published.csv_file.dialect import FileFormatError, Layout, scan
from refresh_assets.published.csv_file.file_format import BLOCK, blocks
from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.cache_files import CachedFile
from refresh_assets.published.publisher.fetch import Publisher
from refresh_assets.published.publisher.transfer import FetchError
from refresh_assets.settings import Settings

# The name under which a file's and a table's materialization tell when the publisher was asked.
ASKED_AT = "publisher_asked"


@dataclass(frozen=True)
class PublishedFile:
    """A file in the cache with what the manifest said of it (`rows`) and how it is laid out.

    `instead_of` is the sha256 of the published file in whose place this earlier one is loaded by wish, `fetch_seconds`
    the time that fetching it took, None where it was not fetched. `asked_at` is when the publisher was asked which file
    it publishes, None where an earlier one was wished for without asking.
    """

    name: str
    sha256: str
    rows: int
    bytes: int
    path: Path
    layout: Layout
    instead_of: str | None = None
    fetch_seconds: float | None = None
    asked_at: datetime | None = None


def cache_of(settings: Settings) -> Cache:
    return Cache(settings.home / "cache", settings.cache_files, settings.cache_bytes)


def publisher_of(settings: Settings) -> Publisher:
    return Publisher(settings.base, settings.http_timeout, cache_of(settings))


def checked(file: CachedFile, name: str) -> PublishedFile:
    """Check the bytes of a cached file. Raises FileFormatError, and FetchError where they are not what was verified."""
    try:
        layout = scan(file.path, name)
    except FileFormatError:
        # The publisher is to blame only for what was published.
        _check_digest(file, name, _digest(file.path))
        raise
    _check_digest(file, name, layout.sha256)
    return PublishedFile(name, file.sha256, file.rows, layout.bytes, file.path, layout)


def _check_digest(file: CachedFile, name: str, found: str) -> None:
    if found != file.sha256:
        file.path.unlink(missing_ok=True)
        raise FetchError(
            f"{name}: the file in the cache has sha256 {found}, not {file.sha256} under which it was kept; "
            "it was removed, run again to fetch it anew"
        )


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in blocks(stream, BLOCK):
            digest.update(block)
    return digest.hexdigest()


def from_cache(settings: Settings, name: str, sha256: str) -> PublishedFile:
    """Return an earlier file of the cache. Raises FetchError that lists what is there where this one is not."""
    cache = cache_of(settings)
    file = cache.get(sha256.strip().lower())
    if file is None or file.name != name:
        kept = ", ".join(kept.sha256 for kept in cache.list() if kept.name == name)
        raise FetchError(f"{name}: no file with sha256 {sha256} is in the cache; of this name it has {kept or 'none'}")
    return checked(file, name)

"""From a publisher's address to a file on disk whose sha256 is the one the manifest promises."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.csv_file.signature import other_format
from refresh_assets.published.publisher.cache import Cache
from refresh_assets.published.publisher.cache_files import CachedFile
from refresh_assets.published.publisher.file_source import FileSource
from refresh_assets.published.publisher.incoming import Incoming
from refresh_assets.published.publisher.manifest import MANIFEST, MAX_BYTES, Manifest, ManifestEntry, parse_manifest
from refresh_assets.published.publisher.transfer import Deadline, FetchError, Memory, Progress, Sink

ROUNDS = 3
"""How often manifest and file are fetched, at most, until they agree."""


class Source(Protocol):
    """A way to fetch."""

    def fetch(
        self, name: str, sink: Sink, deadline: Deadline, progress: Progress | None = None, *, fresh: bool
    ) -> None:
        """Fetch one file into the sink. Raises FetchError, and what the sink raises."""


@dataclass(frozen=True)
class Fetched:
    """A file as the manifest promises it; `manifest` is the newer one where it had to be fetched anew."""

    entry: ManifestEntry
    file: CachedFile
    downloaded: bool
    manifest: Manifest | None
    seconds: float


@dataclass(frozen=True)
class Publisher:
    """A publisher below an address.

    `timeout` is the time in seconds for one file with all attempts at it, `pause` the wait in seconds before the
    second attempt, doubled for each further one.
    """

    base: BaseUrl
    timeout: float
    cache: Cache
    progress: Progress | None = None
    pause: float = 0.5

    def manifest(self) -> Manifest:
        """Fetch the manifest. Raises FetchError or ManifestError."""
        return self._manifest(Deadline.after(self.timeout), fresh=False)

    def file(self, name: str, entry: ManifestEntry | None = None) -> Fetched:
        """Return a file of the publisher, from the cache where it is there already.

        Without an entry the manifest is fetched first. Where file and manifest disagree, the publisher may have
        changed them in between: both are fetched anew, three times in all. Raises FetchError, ManifestError or
        CacheError.
        """
        began = time.monotonic()
        manifest = None
        if entry is None:
            manifest = self.manifest()
            entry = manifest.entry(name)
        deadline = Deadline.after(self.timeout)
        for round_ in range(1, ROUNDS + 1):
            cached = self.cache.get(entry.sha256)
            if cached is not None:
                cached = self.cache.describe(cached, name, entry.rows)
                return Fetched(entry, cached, downloaded=False, manifest=manifest, seconds=time.monotonic() - began)
            cached, mismatch = self._download(entry, deadline, fresh=round_ > 1)
            if cached is not None:
                return Fetched(entry, cached, downloaded=True, manifest=manifest, seconds=time.monotonic() - began)
            if round_ == ROUNDS:
                break
            time.sleep(min(self.pause * 2 ** (round_ - 1), deadline.remaining))
            manifest = self._manifest(deadline, fresh=True)
            entry = manifest.entry(name)
        raise FetchError(f"{mismatch}; both were fetched {ROUNDS} times")

    def _download(self, entry: ManifestEntry, deadline: Deadline, *, fresh: bool) -> tuple[CachedFile | None, str]:
        """Return the file, or None and how it differs from what the manifest promises."""
        with self.cache.incoming() as incoming:
            self._source.fetch(entry.name, incoming, deadline, self.progress, fresh=fresh)
            if incoming.sha256 != entry.sha256:
                return None, self._mismatch(entry, incoming)
            return self.cache.keep(incoming, entry.name, entry.rows, self._address(entry.name)), ""

    def _mismatch(self, entry: ManifestEntry, incoming: Incoming) -> str:
        hint = other_format(incoming.head) if incoming.size else "the file is empty"
        return (
            f"{self._address(entry.name)}: the sha256 of its {incoming.size} bytes is {incoming.sha256}; "
            f"{MANIFEST} says {entry.sha256}" + (f"; {hint}" if hint else "")
        )

    def _manifest(self, deadline: Deadline, *, fresh: bool) -> Manifest:
        body = Memory(self._address(MANIFEST), MAX_BYTES)
        self._source.fetch(MANIFEST, body, deadline, fresh=fresh)
        return parse_manifest(body.body)

    def _address(self, name: str) -> str:
        return self.base.address(name)

    @property
    def _source(self) -> Source:
        if self.base.is_file:
            return FileSource(self.base)
        # A file URL need not pay for an HTTP client.
        from refresh_assets.published.publisher.http_source import HttpSource

        return HttpSource(self.base, self.pause)

"""Which file a run loads: the published one, an earlier one by wish, or the earlier one that was wished for before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, connect, limit
from refresh_assets.published.files import PublishedFile, checked, from_cache, publisher_of
from refresh_assets.published.hold import kept_instead_of, would_replace
from refresh_assets.published.publisher.fetch import Fetched
from refresh_assets.published.publisher.manifest import Manifest
from refresh_assets.published.publisher.transfer import FetchError, Progress
from refresh_assets.settings import Settings

LOOK_SECONDS = 30.0


@dataclass(frozen=True)
class Wish:
    """What a run was asked for: an earlier file of the cache by its sha256, or what is published, come what may."""

    sha256: str | None = None
    published: bool = False

    def __post_init__(self) -> None:
        if self.sha256 and self.published:
            raise RefreshError("`sha256` and `published` contradict each other; give one of them")


@dataclass(frozen=True)
class Choice:
    """The file to load; `fetched` is how it was fetched, None where it is an earlier one of the cache."""

    file: PublishedFile
    fetched: Fetched | None

    @property
    def source(self) -> str:
        """Where the file came from, for people."""
        if self.fetched is not None:
            return "downloaded" if self.fetched.downloaded else "in the cache already"
        return "an earlier file of the cache, by wish"


def choose(
    settings: Settings, name: str, wish: Wish, manifest: Manifest | None = None, progress: Progress | None = None
) -> Choice:
    """Fetch the file of a name, or take it from the cache.

    Without a manifest it is fetched first, where it is needed. Raises RefreshError where there is no such file, it is
    not sound, or the publisher or the database does not answer.
    """
    if wish.sha256:
        return _earlier(settings, name, wish.sha256.strip().lower())
    asked_at = datetime.now(timezone.utc)
    publisher = replace(publisher_of(settings), progress=progress)
    manifest = manifest or publisher.manifest()
    entry = manifest.entry(name)
    if not wish.published:
        with _looking(settings) as conn:
            kept = kept_instead_of(conn, settings.schema, name, entry.sha256)
        if kept is not None:
            return _kept(settings, name, kept, entry.sha256, asked_at)
    fetched = publisher.file(name, entry)
    file = checked(fetched.file, name)
    return Choice(replace(file, fetch_seconds=fetched.seconds, asked_at=asked_at), fetched)


def _earlier(settings: Settings, name: str, sha256: str) -> Choice:
    file = from_cache(settings, name, sha256)
    with _looking(settings) as conn:
        instead_of = would_replace(conn, settings.schema, name, sha256)
    return Choice(replace(file, instead_of=instead_of), None)


def _kept(settings: Settings, name: str, sha256: str, published: str, asked_at: datetime) -> Choice:
    try:
        file = from_cache(settings, name, sha256)
    except FetchError as error:
        raise FetchError(
            f"{error}. The table was made from that earlier file by wish, in place of the published one (sha256 "
            f"{published}), which stays so until another file is published; `refresh-assets reload TABLE published` "
            "loads the published one"
        ) from None
    return Choice(replace(file, instead_of=published, asked_at=asked_at), None)


def _looking(settings: Settings) -> Connection:
    conn = connect(settings.postgres, "refresh-assets file")
    limit(conn, lock_seconds=LOOK_SECONDS, statement_seconds=LOOK_SECONDS, session=True)
    return conn

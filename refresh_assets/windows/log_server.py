"""Log files of a web server: below its own list of a folder, or one file by its address."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from typing import BinaryIO, ClassVar
from urllib.parse import unquote, urljoin, urlsplit

import httpx

from refresh_assets.errors import RefreshError
from refresh_assets.published.publisher.http_source import CONNECT_SECONDS, HttpSource
from refresh_assets.published.publisher.transfer import Deadline, GoneError, Memory
from refresh_assets.windows.log_folder import MOST_FILES, LogFile
from refresh_assets.windows.source_settings import LogSettings

MAX_LIST_BYTES = 20_000_000
LIST_SECONDS = 60.0
TAGS_SECONDS = 60.0
"""For the tags of all files; those that did not come in time are read whole."""
_PAUSE = 0.5


class _Links(HTMLParser):
    """Gathers where a page's links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


@dataclass
class _Spool:
    """Takes a body into a temporary file; `size` is how many bytes have come."""

    file: BinaryIO
    max_bytes: int
    size: int = 0

    def announce(self, size: int) -> None:
        if size > self.max_bytes:
            raise RefreshError(f"a log file has {size} bytes or more; REFRESH_CACHE_BYTES allows {self.max_bytes}")

    def write(self, block: bytes) -> None:
        self.announce(self.size + len(block))
        self.file.write(block)
        self.size += len(block)

    def restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.size = 0


@dataclass(frozen=True)
class LogServer:
    """A folder that a web server lists (as nginx, Apache and Python's own server do), or one file."""

    remote: ClassVar[bool] = True
    settings: LogSettings

    def files(self) -> list[LogFile]:
        """Return the files that the list links to and that are in that very folder."""
        if not self.settings.base.is_folder:
            return self._described([""])
        page = Memory(self.settings.base.address(""), MAX_LIST_BYTES)
        # The database, in whose transaction this is, does not wait for ever.
        self._source.fetch("", page, Deadline.after(min(LIST_SECONDS, self.settings.http_timeout)), fresh=True)
        links = _Links()
        links.feed(page.body.decode("utf-8", "replace"))
        names = sorted({name for link in links.found if (name := self._name(link)) is not None})
        if not names:
            raise RefreshError(
                f"{self.settings.base.address('')} lists no file named {self.settings.pattern}: WINDOW_LOGS names the "
                "folder, WINDOW_LOG_FILES the files; no window was loaded as empty"
            )
        if len(names) > MOST_FILES:
            raise RefreshError(f"{self.settings.base.address('')} lists {len(names)} files; at most {MOST_FILES}")
        return self._described(names)

    @contextmanager
    def open(self, file: LogFile) -> Iterator[BinaryIO]:
        """Fetch a file to the disk and open it; it is gone afterwards.

        Raises FileNotFoundError where the server lists a file and does not have it, RefreshError otherwise.
        """
        folder = self.settings.home / "windows"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as spool:
            deadline = Deadline.after(self.settings.http_timeout)
            try:
                self._source.fetch(file.name, _Spool(spool, self.settings.max_bytes), deadline, fresh=True)
            except GoneError as error:
                if not self.settings.base.is_folder:
                    raise
                raise FileNotFoundError(str(error)) from error
            spool.seek(0)
            yield spool

    @property
    def _source(self) -> HttpSource:
        return HttpSource(self.settings.base, _PAUSE)

    def _name(self, link: str) -> str | None:
        """Return the name of the wanted file that a link leads to, or None."""
        folder = self.settings.base.address("")
        with contextlib.suppress(ValueError):
            address = urlsplit(urljoin(folder, link))
            path, _, name = address.path.rpartition("/")
            same = (address.scheme, address.netloc, path + "/") == (*urlsplit(folder)[:2], urlsplit(folder).path)
            name = unquote(name)
            if same and "/" not in name and fnmatchcase(name, self.settings.pattern):
                return name
        return None

    def _described(self, names: list[str]) -> list[LogFile]:
        """Ask for the files' strong entity tags: such a one is another one whenever the bytes are.

        Where they cannot be had, the files are read whole each time, and then what is wrong is told.
        """
        base = self.settings.base
        auth = httpx.BasicAuth(base.username, base.password or "") if base.username is not None else None
        versions: dict[str, str] = {}
        with (
            contextlib.suppress(httpx.HTTPError, httpx.InvalidURL, OSError, ValueError),
            httpx.Client(auth=auth, timeout=CONNECT_SECONDS) as client,
        ):
            deadline = Deadline.after(TAGS_SECONDS)
            for name in names:
                if not deadline.remaining:
                    break
                answer = client.head(base.address(name))
                tag = answer.headers.get("ETag", "")
                if answer.is_success and tag.startswith('"') and len(tag) > len('""'):
                    versions[name] = tag
        return [LogFile(name, name, versions.get(name)) for name in names]

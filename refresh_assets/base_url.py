"""The publisher's address, kept apart from the credentials in it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit, urlunsplit
from urllib.request import url2pathname

DATA_PATH = "learn/data"


@dataclass(frozen=True)
class BaseUrl:
    """An http, https or file address below which `learn/data/` is published; `url` never holds a password.

    `setting` is the environment variable that names it, for errors.
    """

    setting: ClassVar[str] = "LEARN_BASE"

    url: str
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> BaseUrl:
        """Take an address apart. Raises ValueError whose text goes behind the setting's name and shows no value."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("is not a URL") from None
        if parts.scheme not in ("http", "https", "file"):
            raise ValueError("must be an http, https or file URL")
        if parts.query or parts.fragment:
            raise ValueError("must not have a query or a fragment: it is the base of other addresses")
        if parts.scheme == "file":
            if host not in (None, "", "localhost") or not parts.path.startswith("/") or "%00" in parts.path:
                raise ValueError("must name a folder of this machine: file:///folder")
            return cls("file://" + parts.path.rstrip("/"))
        if not host:
            raise ValueError("must name a host")
        location = f"[{host}]" if ":" in host else host
        if port is not None:
            location += f":{port}"
        url = urlunsplit((parts.scheme, location, parts.path.rstrip("/"), "", ""))
        return cls(url, *(unquote(x) if x is not None else None for x in (parts.username, parts.password)))

    @property
    def is_file(self) -> bool:
        return self.url.startswith("file:")

    def address(self, name: str) -> str:
        """Return the address of a published file, to be shown and to be fetched."""
        return f"{self.url}/{DATA_PATH}/{quote(name)}"

    def path(self, name: str) -> Path:
        """Return the local path of a published file below a file URL, percent-encoding of the URL undone."""
        path = urlsplit(self.url).path or "/"
        # Names of files are bytes here, and not every one of them is UTF-8.
        base = url2pathname(path) if os.name == "nt" else os.fsdecode(unquote_to_bytes(path))
        return Path(base, *DATA_PATH.split("/"), name)

"""What an HTTP answer means for a refresh: the file, another attempt, or the end."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx

_GONE = {404, 410}
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_MEANING = {
    206: "a part of the file that nobody asked for",
    304: "not modified, which nobody asked for",
    401: "a user and password are needed, or these are wrong; {setting} may carry them",
    403: "this account may not read it",
    404: "not published there; {setting} says where the published files are",
    407: "the proxy wants a login; HTTP_PROXY or HTTPS_PROXY may carry it",
    410: "no longer published there",
}


class Refused(Exception):  # noqa: N818
    """Another attempt would end alike; the text goes behind an address."""


class Gone(Refused):
    """There is no such file, or there is none any more."""


class Transient(Exception):  # noqa: N818
    """Another attempt may go better; `retry_after` is the wait in seconds that the server asked for."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


def check_status(answer: httpx.Response, redirected_to: str | None, setting: str) -> None:
    """Return where the whole file follows; raises Transient or Refused for every other status.

    `setting` is the environment variable that names the address.
    """
    status = answer.status_code
    if status == HTTPStatus.OK:
        return
    text = f"the server answered {status}"
    meaning = _MEANING.get(status, "").format(setting=setting) or answer.reason_phrase
    if meaning:
        text += f" ({meaning[:100]})"
    if redirected_to is not None:
        text += f" at {shown(redirected_to)}"
    if status in _TRANSIENT:
        raise Transient(text, retry_after(answer))
    raise Gone(text) if status in _GONE else Refused(text)


def retry_after(answer: httpx.Response) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, given in seconds or as a date, or None."""
    value = answer.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        instant = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=timezone.utc)
    return max(0.0, (instant - datetime.now(timezone.utc)).total_seconds())


def shown(url: str) -> str:
    """Return an address fit for an error: without a login and without a query, which may be a signature."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "something that is not a URL"
    query = "…" if parts.query else ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment="").geturl()[:300]

"""Published files of a web server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urljoin, urlsplit

import httpx
import tenacity

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.publisher import event_loop
from refresh_assets.published.publisher.body import BodyError, CutShortError, decoder
from refresh_assets.published.publisher.http_answer import Gone, Refused, Transient, check_status, shown
from refresh_assets.published.publisher.transfer import Deadline, FetchError, GoneError, Progress, Sink

ATTEMPTS = 4
CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
MAX_REDIRECTS = 10
_MAX_WAIT = 30.0


@dataclass(frozen=True)
class HttpSource:
    """A web server below a base address; `pause` is the wait in seconds before the second attempt."""

    base: BaseUrl
    pause: float

    def fetch(
        self, name: str, sink: Sink, deadline: Deadline, progress: Progress | None = None, *, fresh: bool
    ) -> None:
        """Fetch a file into the sink; `fresh` asks caches on the way for what the publisher has now.

        Raises FetchError, and what the sink raises.
        """
        transfer = _Transfer(self, self.base.address(name), sink, deadline, progress, fresh)
        try:
            event_loop.run(transfer.attempts(), deadline.remaining)
        except asyncio.TimeoutError:
            raise deadline.missed(transfer.address, sink.size, transfer.last) from None


@dataclass
class _Transfer:
    """One file on its way; `made` attempts were made at it, `last` says why the one before failed."""

    source: HttpSource
    address: str
    sink: Sink
    deadline: Deadline
    progress: Progress | None
    fresh: bool
    last: str | None = None
    made: int = 0

    async def attempts(self) -> None:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Transient),
            stop=self._stop,
            wait=self._wait,
            reraise=True,
        )
        try:
            async with self._client() as client:
                await retrying(self._attempt, client)
        except Transient as error:
            made = f"; {self.made} attempts were made" if self.made > 1 else ""
            raise FetchError(f"{self.address}: {error}{made}{_late(error, self.deadline)}") from error
        except Gone as error:
            raise GoneError(f"{self.address}: {error}") from error
        except (Refused, BodyError) as error:
            raise FetchError(f"{self.address}: {error}") from error

    def _wait(self, state: tenacity.RetryCallState) -> float:
        pause = self.source.pause
        backoff = tenacity.wait_exponential(multiplier=pause, max=_MAX_WAIT) + tenacity.wait_random(0, pause)
        return max(backoff(state), _asked_wait(state))

    def _stop(self, state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= ATTEMPTS or state.upcoming_sleep >= self.deadline.remaining

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        try:
            client = httpx.AsyncClient(
                headers={"User-Agent": _user_agent(), "Accept-Encoding": "gzip"},
                timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                follow_redirects=False,
                event_hooks={"response": [self._look_at_redirect]},
                verify=_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            )
        except (httpx.InvalidURL, ValueError, ImportError):
            raise FetchError(
                f"{self.address}: the proxy settings of this environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, "
                "NO_PROXY) cannot be used; http and https proxies are supported"
            ) from None
        except OSError:
            raise FetchError(
                f"{self.address}: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
            ) from None
        async with client:
            yield client

    async def _attempt(self, client: httpx.AsyncClient) -> None:
        self.sink.restart()
        self.made += 1
        try:
            with _transport_errors(self.sink):
                await self._follow(client)
        except Transient as error:
            self.last = str(error)
            raise

    async def _follow(self, client: httpx.AsyncClient) -> None:
        url = self.address
        for _ in range(MAX_REDIRECTS + 1):
            request = client.build_request("GET", url, headers={"Cache-Control": "no-cache"} if self.fresh else None)
            answer = await client.send(request, auth=self._auth(url), stream=True)
            try:
                if answer.has_redirect_location:
                    url = self._next(url, answer.headers["Location"])
                    continue
                check_status(answer, url if url != self.address else None, self.source.base.setting)
                await self._receive(answer)
                return
            finally:
                await answer.aclose()
        raise Refused(f"redirected more than {MAX_REDIRECTS} times, at last to {shown(url)}")

    async def _look_at_redirect(self, answer: httpx.Response) -> None:
        """Refuse a redirect before the client looks at it, whose complaints would say less."""
        if answer.has_redirect_location:
            self._next(str(answer.request.url), answer.headers["Location"])

    def _auth(self, url: str) -> httpx.Auth | None:
        """Return the credentials where the address is of the publisher's own origin."""
        base = self.source.base
        if base.username is None or _origin(url) != _origin(base.url):
            return None
        return httpx.BasicAuth(base.username, base.password or "")

    def _next(self, url: str, location: str) -> str:
        """Return where a redirect leads. Raises Refused where it leaves http(s) or gives up encryption."""
        try:
            parts = urlsplit(urljoin(url, location))
            _ = parts.port
        except ValueError:
            raise Refused("redirected to something that is not a URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Refused(f"redirected to {shown(location)}, which is not an http or https address: refused")
        if parts.scheme == "http" and urlsplit(url).scheme == "https" and self.source.base.username is not None:
            raise Refused(f"redirected from https to {shown(parts.geturl())} where a login is in use: refused")
        # A login that a redirect brings along is none of ours.
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()

    async def _receive(self, answer: httpx.Response) -> None:
        decode = decoder(answer.headers.get("Content-Encoding", ""))
        total = _announced(answer)
        if total is not None:
            self.sink.announce(total)
        async for block in answer.aiter_raw():
            for part in decode.feed(block):
                self.sink.write(part)
            if self.progress is not None:
                self.progress(self.sink.size, total)
        decode.end()


def _asked_wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return (error.retry_after if isinstance(error, Transient) else None) or 0.0


def _late(error: Transient, deadline: Deadline) -> str:
    """Say that the server asked for a later attempt than there is time for."""
    if error.retry_after is None or error.retry_after < deadline.remaining:
        return ""
    return (
        f"; it asks to come back after {error.retry_after:.0f} s, "
        f"and REFRESH_HTTP_TIMEOUT allows {deadline.seconds:g} s in all"
    )


@contextlib.contextmanager
def _transport_errors(sink: Sink) -> Iterator[None]:
    """Tell what may go better at another attempt (Transient) from what will not (Refused)."""
    try:
        yield
    except CutShortError as error:
        raise Transient(f"{error}: {sink.size} bytes came") from error
    except httpx.TimeoutException as error:
        step = "connecting" if isinstance(error, httpx.ConnectTimeout) else "waiting for data"
        raise Transient(f"time-out while {step}, {sink.size} bytes came") from error
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError) as error:
        raise Refused("is not an address that can be asked") from error
    except httpx.RemoteProtocolError as error:
        text = str(error)
        if "complete message body" in text or "incomplete chunked read" in text:
            raise Transient(f"the body was cut short, {sink.size} bytes came ({text})") from error
        raise Transient(f"the answer is not HTTP or broke off, {sink.size} bytes came ({text[:200]})") from error
    except httpx.TransportError as error:
        problem = _certificate_problem(error)
        if problem is not None:
            raise Refused(
                f"its certificate is not trusted ({problem}); SSL_CERT_FILE may name another authority"
            ) from error
        raise Transient(f"{_connection_problem(error)}, {sink.size} bytes came") from error


def _certificate_problem(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


def _connection_problem(error: httpx.TransportError) -> str:
    text = _system_error(error) or str(error) or type(error).__name__
    step = "the connection cannot be made" if isinstance(error, httpx.ConnectError) else "the connection was lost"
    return f"{step} ({text[:200]})"


def _system_error(error: BaseException | None) -> str | None:
    """Return what the system says below the client's wrappings, such as `Connection refused`."""
    text = None
    while error is not None:
        if isinstance(error, socket.gaierror):
            text = error.strerror
        elif isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
            text = os.strerror(error.errno)
        inner = getattr(error, "exceptions", None)
        error = inner[0] if inner else error.__cause__ or error.__context__
    return text


def _announced(answer: httpx.Response) -> int | None:
    """Return the size of the file as announced, in bytes, where it was: a packed size is not the file's."""
    length = answer.headers.get("Content-Length", "")
    if "Content-Encoding" in answer.headers or not length.isdecimal() or len(length) > 18:  # noqa: PLR2004
        return None
    return int(length)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


@cache
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the authorities that are trusted: those that the environment names, else certifi's. Raises OSError."""
    del file, folder  # read from the environment; here they tell one context from another
    return httpx.create_ssl_context()


@cache
def _user_agent() -> str:
    try:
        return f"refresh-assets/{version('refresh-assets')}"
    except PackageNotFoundError:
        return "refresh-assets"

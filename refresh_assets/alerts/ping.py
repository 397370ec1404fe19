"""Calls to a dead man's switch: an outside watcher who notices when they stay away."""

from __future__ import annotations

import os
from typing import Literal

import httpx

from refresh_assets.alerts.text import bounded, one_line, readable
from refresh_assets.alerts.within import within
from refresh_assets.secrets import MASK, mask
from refresh_assets.settings import Env

SECONDS = 5.0
_ATTEMPTS = 2
_PATHS = {"start": b"/start", "success": b"", "fail": b"/fail"}
# What Healthchecks keeps of a body; the beginning says what failed.
_LONGEST_REASON = 10_000
_PASSING = (408, 429)
_SERVER_FAULT = 500


def ping(url: str, state: Literal["start", "success", "fail"], reason: str = "", env: Env = os.environ) -> str | None:
    """Tell the watcher that a refresh began, succeeded or failed, and why; return None, or why that was not possible.

    Never raises. Tried twice, for at most five seconds each.
    """
    body = bounded(readable(mask(reason, env)), head=_LONGEST_REASON, tail=0).encode()
    problem = None
    for _attempt in range(_ATTEMPTS):
        try:
            status = within(SECONDS, lambda: _call(url, _PATHS[state], body))
        except Exception as error:  # noqa: BLE001 - a watcher out of reach is no reason to stop
            problem = _words(error, url, env)
            continue
        if status < 400:  # noqa: PLR2004
            return None
        problem = f"the address in ALERT_PING_URL answered with status {status}"
        if status not in _PASSING and status < _SERVER_FAULT:
            break
    return problem


def _call(url: str, path: bytes, body: bytes) -> int:
    address = httpx.URL(url)
    if path:
        own, mark, query = address.raw_path.partition(b"?")
        address = address.copy_with(raw_path=own.rstrip(b"/") + path + mark + query)
    with httpx.Client(timeout=SECONDS, follow_redirects=True) as client:
        method = "POST" if body else "GET"
        # The answer's body is of no interest, however long it is.
        with client.stream(method, address, content=body or None) as response:
            return response.status_code


def _words(error: Exception, url: str, env: Env) -> str:
    """Return why there was no answer; the address is itself a secret, for whoever has it can ping."""
    text = "time-out" if isinstance(error, (TimeoutError, httpx.TimeoutException)) else str(error)
    text = text.replace(url, MASK) or type(error).__name__
    return one_line(f"the address in ALERT_PING_URL was not reached: {mask(text, env)}", 300)

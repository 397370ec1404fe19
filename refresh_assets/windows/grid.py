"""Where windows begin and end, and which windows a wish for a span of time means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol

from refresh_assets.windows.window import Window, WindowError, in_utc, text

# A wish of more windows than this is a slip of the pen, and would fill memory.
MOST_WINDOWS = 20_000
_ZULU = re.compile(r"[zZ]$")


class Grid(Protocol):
    """The bounds of all windows: the ticks of the schedule that loads them."""

    def ticks(self, since: datetime, until: datetime) -> Sequence[datetime]:
        """Return the ticks in [since, until], both ends included, in ascending order and in UTC.

        There are at least the first MOST_WINDOWS + 1 of them; a grid may leave out what comes after those.
        """
        ...

    def last(self, until: datetime) -> datetime:
        """Return the last tick that is not after a moment."""
        ...

    def next(self, since: datetime) -> datetime:
        """Return the first tick that is not before a moment."""
        ...

    @property
    def first(self) -> datetime:
        """The first tick of all: nothing before it is loaded."""
        ...

    @property
    def cron(self) -> str:
        """The cron expression of the ticks."""
        ...

    @property
    def timezone(self) -> str:
        """The IANA time zone in which they tick."""
        ...


@dataclass(frozen=True)
class Wish:
    """The whole windows that a span of time means; `widened` says so where the span cut some of them."""

    windows: tuple[Window, ...]
    widened: str | None = None


def parse(name: str, given: str) -> datetime:
    """Return a moment as a person writes it. Raises WindowError where it is none or has no time zone."""
    try:
        moment = datetime.fromisoformat(_ZULU.sub("+00:00", given.strip()))
    except ValueError:
        raise WindowError(f"{name} ({given}) is no time; write it as 2026-03-02T04:15+00:00") from None
    return in_utc(moment, name)


def wished(grid: Grid, since: datetime | None, until: datetime | None, now: datetime) -> Wish:
    """Return the windows that [since, until) touches, in ascending order.

    Raises WindowError where a bound is missing or has no time zone, where `until` does not come after `since`, where
    one of the windows has not ended yet, or where the first would lie before the first tick of all.
    """
    if since is None or until is None:
        missing = "since" if since is None else "until"
        raise WindowError(f"{missing} is missing; give both bounds of the time to load")
    span = Window(since, until)
    _check_past(grid, span, now)
    if span.since < grid.first:
        raise WindowError(
            f"since ({text(span.since)}) lies before the first window, which begins at {text(grid.first)}; "
            "set WINDOW_START to an earlier date"
        )
    whole = Window(grid.last(span.since), grid.next(span.until))
    windows = between(grid, whole.since, whole.until)
    widened = None if whole == span else f"{span} was widened to whole windows: {whole}"
    return Wish(windows, widened)


def between(grid: Grid, since: datetime, until: datetime) -> tuple[Window, ...]:
    """Return the windows that lie in [since, until]. Raises WindowError where there are too many."""
    found = oldest(grid, since, until)
    if len(found) >= MOST_WINDOWS:
        raise WindowError(f"{Window(since, until)} has more than {MOST_WINDOWS} windows; give a shorter time")
    return found


def oldest(grid: Grid, since: datetime, until: datetime) -> tuple[Window, ...]:
    """Return the windows that lie in [since, until], the earliest of them where there are too many at once."""
    ticks = grid.ticks(since, until) if since < until else ()
    return tuple(Window(*bounds) for bounds in pairwise(ticks[: MOST_WINDOWS + 1]))


def every(grid: Grid, since: datetime, until: datetime) -> Iterator[Window]:
    """Yield the windows that lie in [since, until], in ascending order, however many there are."""
    while since < until:
        ticks = grid.ticks(since, until)
        yield from (Window(*bounds) for bounds in pairwise(ticks))
        if len(ticks) <= MOST_WINDOWS:
            return
        since = ticks[-1]


def _check_past(grid: Grid, span: Window, now: datetime) -> None:
    if span.until > now:
        raise WindowError(f"until ({text(span.until)}) lies in the future; events are still to come")
    last = grid.last(now)
    if span.until > last:
        raise WindowError(
            f"until ({text(span.until)}) lies in a window that has not ended yet; the last whole one ended at "
            f"{text(last)}"
        )

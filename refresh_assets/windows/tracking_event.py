"""One line of a tracking log in the layout of Open edX: when, in which course, what, and by whom."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from json import JSONDecoder
from typing import Any

NO_COURSE = "site"
PAGE = "page"
OTHER = "other"
_LONGEST = 255
# What `json.loads` does, without its looks for blanks before and behind, which cost as much again.
_scan: Callable[[str, int], tuple[Any, int]] = JSONDecoder().scan_once  # type: ignore[attr-defined]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,99}")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,12}))?(?:([Zz])|([+-]\d\d):?(\d\d)?)?", re.ASCII
)
# As Python's own `isoformat` writes it, and so Open edX: 2026-03-02T04:15:00.000000+00:00. What else `fromisoformat`
# takes is another thing in each version of Python.
_USUAL = 32
_MARKS = "--T::."
_SIGN = 26
_MOST_USERS = 1 << 63
_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)


class BrokenLineError(ValueError):
    """A line that is no event; the text says why and shows nothing of it."""


Event = tuple[datetime, str, str, "str | None"]
"""When, in which course, what kind, and by which learner, None where nobody was logged in."""


def read_event(line: bytes) -> Event:
    """Read a line without blanks around it. Raises BrokenLineError."""
    try:
        text = line.decode()
        found, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        raise BrokenLineError("it is no JSON in UTF-8") from None
    if end != len(text):
        raise BrokenLineError("it is no JSON in UTF-8")
    if type(found) is not dict:
        raise BrokenLineError("it is JSON but no object")
    context = found.get("context")
    if context is None:
        context = {}
    if type(context) is not dict:
        raise BrokenLineError("its context is no object")
    time, course, user = found.get("time"), context.get("course_id"), context.get("user_id")
    kind = found.get("event_type") or found.get("name")
    if type(time) is not str:
        raise BrokenLineError("it has no time")
    if type(kind) is not str:
        raise BrokenLineError("it says no event type")
    if course and type(course) is not str:
        raise BrokenLineError("its course is no text")
    return (
        _moment(time),
        _course(course) if course else NO_COURSE,
        _kind(kind),
        str(user) if type(user) is int and 0 < user < _MOST_USERS else _other_user(user),
    )


def _moment(text: str) -> datetime:
    try:
        if len(text) == _USUAL and text[4:20:3] == _MARKS and text[_SIGN] == "+":
            return datetime.fromisoformat(text)
        return _other_moment(text)
    except (ValueError, OverflowError):
        raise BrokenLineError("its time cannot be read") from None


def _other_moment(text: str) -> datetime:
    """Read the other ways of ISO 8601; without an offset it is UTC, as Open edX documents its times."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BrokenLineError("its time cannot be read")
    day, clock, fraction, _, hours, minutes = found.groups()
    offset = f"{hours}:{minutes or '00'}" if hours else "+00:00"
    return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '')[:6]:0<6}{offset}").astimezone(timezone.utc)


@lru_cache(maxsize=10_000)
def _course(found: str) -> str:
    course = found.strip()
    # What cannot be printed, a NUL and a lone surrogate among it, no database takes or nobody can read.
    if len(course) > _LONGEST or not course.isprintable():
        raise BrokenLineError("its course is too long or cannot be printed")
    return course or NO_COURSE


@lru_cache(maxsize=10_000)
def _kind(found: str) -> str:
    """Return the event's name. Addresses of pages, and what else users may write, can tell who somebody is."""
    if found.startswith("/"):
        return PAGE
    return found if _NAME.fullmatch(found) else OTHER


def _other_user(user: Any) -> str | None:
    if user is None or user == "":
        return None
    if type(user) is int and user <= 0:
        return None
    if not isinstance(user, str) or len(user) > _LONGEST or not user.isprintable():
        raise BrokenLineError("its user is neither a number nor a text")
    user = user.strip()
    if not _NUMBER.fullmatch(user):
        return user or None
    number = int(user)
    return str(number) if number > 0 else None

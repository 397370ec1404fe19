"""What a row of the table of requests may hold: its name, and what it asks for as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from refresh_assets.errors import RefreshError

# The task_name of our rows; rows of another name are nobody of ours.
TASK = "refresh"
LONGEST_NAME = 100
LARGEST_DATA = 65_536
# As the table has it.
EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=timezone.utc), datetime(9998, 12, 31, tzinfo=timezone.utc)
PRIORITIES = range(-32_768, 32_768)


class BadRequestError(RefreshError):
    """A request cannot be taken as it is; the text says what of it, and what would do."""


def checked_name(instance: str) -> str:
    """Return the name of a request. Raises BadRequestError where it is empty, too long or not printable."""
    if not instance or not instance.isprintable():
        raise BadRequestError("the name of a request must be printable text, and not empty")
    if len(instance) > LONGEST_NAME:
        raise BadRequestError(
            f"the name of a request has {len(instance)} characters; at most {LONGEST_NAME} are allowed"
        )
    return instance


def checked_text(instance: str) -> str:
    """Return a name to look for, such as any program can have written. Raises BadRequestError for what none can be."""
    if not instance or "\0" in instance:
        raise BadRequestError("the name of a request is not empty, and has no NUL character")
    return instance


def checked_time(when: datetime | None) -> datetime | None:
    """Return an instant in UTC; None is now, by the database's clock.

    Raises BadRequestError for a naive one, and for one outside of the years 2 to 9998.
    """
    if when is None:
        return None
    if when.tzinfo is None or when.utcoffset() is None:
        raise BadRequestError(
            f"the time {when.isoformat()} has no time zone; give one, as in {when.isoformat(timespec='seconds')}+00:00"
        )
    if not EARLIEST <= when <= LATEST:
        raise BadRequestError(f"the time {when.isoformat()} does not lie within the years 2 to 9998")
    return when.astimezone(timezone.utc)


def checked_priority(priority: int | None) -> int | None:
    if priority is not None and priority not in PRIORITIES:
        raise BadRequestError(f"the priority {priority} is not within {PRIORITIES[0]} and {PRIORITIES[-1]}")
    return priority


def encode(data: Mapping[str, Any] | None) -> bytes | None:
    """Return what a request asks for as JSON in UTF-8, nothing for None.

    Raises BadRequestError where it is no JSON object or larger than 64 KB.
    """
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise BadRequestError(f"what a request asks for must be a JSON object, not {type(data).__name__}")
    try:
        text = json.dumps(dict(data), ensure_ascii=False, allow_nan=False)
        encoded = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"what a request asks for cannot be written as JSON: {error}") from error
    if len(encoded) > LARGEST_DATA:
        raise BadRequestError(
            f"what a request asks for has {len(encoded)} bytes of JSON; at most {LARGEST_DATA} are allowed"
        )
    return encoded


def decode(data: bytes | None) -> Mapping[str, Any]:
    """Return what a row asks for; nothing, an empty text and `null` ask for nothing in particular.

    Raises BadRequestError where it is no JSON object.
    """
    if not data or not data.strip():
        return {}
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the data of the request are not JSON in UTF-8: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadRequestError(f"the data of the request must be a JSON object, not {type(found).__name__}")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")

"""Runs that somebody else answers for: who asked for them tries again and tells a person, so nobody else does.

The tags are on the run: `OWNER_TAG` from its start, `SETTLED_TAG` when its owner has taken note of how it ended. Where
the owner does not, the run's failure is told as that of any other.
"""

from __future__ import annotations

from collections.abc import Mapping

OWNER_TAG = "refresh/request"
SETTLED_TAG = "refresh/request_settled"


def is_owned(tags: Mapping[str, str]) -> bool:
    """Tell whether a run was asked for by a request."""
    return OWNER_TAG in tags


def is_settled(tags: Mapping[str, str]) -> bool:
    """Tell whether its owner has taken note of how it ended."""
    return SETTLED_TAG in tags

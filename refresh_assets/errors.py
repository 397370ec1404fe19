"""The one error that the product raises on purpose."""

from __future__ import annotations


class RefreshError(Exception):
    """Something a person can mend; its text says what, where, and what to do."""

"""The error of what waiting will not mend."""

from __future__ import annotations

from refresh_assets.errors import RefreshError


class RefusedError(RefreshError):
    """The lease cannot be kept here: the text says why, and what to change."""

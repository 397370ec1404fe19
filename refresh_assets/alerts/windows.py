"""How the windows of the event log stand: what is due, and what is overdue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.text import instant
from refresh_assets.windows.due import Due
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window


@dataclass(frozen=True)
class DueWindows:
    """What is due, and how long after its end a window may be missing."""

    due: Due
    limit: timedelta

    def overdue(self, now: datetime, watched_since: datetime) -> list[Window]:
        """Return the missing windows over their limit, which counts from when windows were first watched at all."""
        return [window for window in self.due.missing if now > max(window.until, watched_since) + self.limit]


@dataclass(frozen=True)
class WindowsStatus:
    """How the windows stood at `now`, for people and for monitoring."""

    now: datetime
    windows: DueWindows
    timezone: str

    @property
    def wrong(self) -> list[str]:
        """What a person should see to."""
        overdue = self._overdue
        since = f" since {instant(overdue[0].until + self.windows.limit, self.timezone)}" if overdue else ""
        return [f"{JOB} is overdue{since}: {len(overdue)} window(s) not loaded"] if overdue else []

    def line(self) -> str:
        """Return what a person reads."""
        due = self.windows.due
        marker = f"loaded up to {instant(due.state.marker, self.timezone)}" if due.state else "never loaded"
        missing = f"{len(due.missing)} missing (limit {span(self.windows.limit)})"
        return f"{'FAILED' if self._overdue else 'ok':<6} {JOB}: {marker}; {missing}, {len(due.stale)} stale"

    def as_json(self) -> dict[str, Any]:
        due = self.windows.due
        return {
            "marker": due.state.marker.isoformat() if due.state else None,
            "missing": [str(window) for window in due.missing],
            "stale": [str(window) for window in due.stale],
            "limit_seconds": self.windows.limit.total_seconds(),
            "overdue": bool(self._overdue),
        }

    @property
    def _overdue(self) -> list[Window]:
        if self.windows.due.state is None:
            return []
        return self.windows.overdue(self.now, self.windows.due.state.first)

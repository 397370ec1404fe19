"""What an event log must be able to do to be counted by windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from refresh_assets.postgres.connect import Connection
from refresh_assets.windows.window import Window


@dataclass(frozen=True)
class Seen:
    """What the source holds of one window: the number of its events, and a mark which differs when some were added.

    Neither is shown to people: a total can tell what a suppressed row hides.
    """

    window: Window
    events: int
    mark: str


@dataclass(frozen=True)
class LineCounts:
    """Lines of log files by what became of them; `other` are sound ones that are no event of these windows."""

    read: int
    blank: int
    comment: int
    broken: int
    other: int


@dataclass(frozen=True)
class Staged:
    """What staging met: each wanted window as it was seen, and for files what became of their lines."""

    seen: Mapping[Window, Seen]
    lines: LineCounts | None = None


class EventSource(Protocol):
    """An event log."""

    @property
    def name(self) -> str:
        """What people call it: without a password, such as a table's name or the folder of the files."""
        ...

    @property
    def column_dependencies(self) -> Mapping[str, Sequence[str]]:
        """The columns or fields of the log that a column of the metrics is computed from."""
        ...

    def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
        """Add the exact cells of these windows to the session's temporary table `pg_temp.window_cells`.

        The table is there and empty, in an open transaction on `conn` whose time zone is UTC; all windows in one pass
        over the source. `windows` are in ascending order and do not overlap; `progress` takes the number of events read
        so far. Raises RefreshError.
        """
        ...

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        """Return what the source holds of these windows now, cheaply; windows that it cannot tell of are left out.

        The mark of a window is the one that `stage` would return. Raises RefreshError.
        """
        ...

"""What an event log must be able to do to be counted by windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.windows.window import Window

REPEATED = "some lines stand there more than once; each counts once"
"""The note of a log that repeats itself: then a window is seen with more events than its rows count."""


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
    """Lines of the log files that are no events.

    How many are events is not told: it is a total from which a suppressed number could be had by subtracting.
    """

    blank: int
    comment: int
    broken: int


@dataclass(frozen=True)
class Staged:
    """What staging met: each wanted window as it was seen; for files their lines that are no events.

    `notes` are sentences for people, without a number that tells of events.
    """

    seen: Mapping[Window, Seen]
    lines: LineCounts | None = None
    notes: tuple[str, ...] = ()


class BrokenLinesError(RefreshError):
    """Too many lines of these windows cannot be read as events; other windows can be counted without them."""

    def __init__(self, text: str, windows: Sequence[Window]) -> None:
        super().__init__(text)
        self.windows = tuple(windows)


class EventSource(Protocol):
    """An event log."""

    @property
    def name(self) -> str:
        """What people call it: without a password, such as a table's name or the folder of the files."""
        ...

    @property
    def column_dependencies(self) -> Mapping[str, Sequence[str]]:
        """Return the columns or fields of the log that a column of the metrics is computed from."""
        ...

    def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
        """Add the exact cells of these windows to the session's temporary table `pg_temp.window_cells`.

        The table is there and empty, in an open transaction on `conn` whose time zone is UTC; all windows in one pass
        over the source. `windows` are in ascending order and do not overlap; `progress` takes the number of bytes read
        so far. Raises BrokenLinesError, RefreshError.
        """
        ...

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        """Return what the source holds of these windows now, cheaply; windows that it cannot tell of are left out.

        The mark of a window is the one that `stage` would return. Raises RefreshError.
        """
        ...

"""Events as rows for COPY: each with the number of its cell, which another row says the meaning of."""

from __future__ import annotations

from datetime import datetime, timezone

from refresh_assets.windows.tracking_event import Event

MOST_CELLS = 50_000
"""Cells whose numbers are remembered. After that all are forgotten, and a cell may get another number."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Rows:
    """Makes rows of `window_log`: cell, learner, time in microseconds since 1970, CRC-32 of the line, and the meaning.

    `defined` is how many rows only tell what a cell is.
    """

    def __init__(self) -> None:
        self.defined = 0
        self._cells: dict[tuple[int, str, str], int] = {}

    def of(self, index: int, event: Event, line_sum: int) -> str:
        """Return the row of an event in the window of this index, before it that of its cell where that is new."""
        at, course, kind, learner = event
        cell = self._cells.get((index, course, kind))
        definition = ""
        if cell is None:
            cell, definition = self._define(index, course, kind)
        since = at - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if learner is None:
            learner = "\\N"
        elif "\\" in learner:
            learner = _escaped(learner)
        return f"{definition}{cell}\t{learner}\t{micros}\t{line_sum}\t\\N\t\\N\t\\N\n"

    def _define(self, index: int, course: str, kind: str) -> tuple[int, str]:
        if len(self._cells) >= MOST_CELLS:
            self._cells.clear()
        self.defined += 1
        self._cells[index, course, kind] = self.defined
        return self.defined, f"{self.defined}\t\\N\t\\N\t\\N\t{index + 1}\t{_escaped(course)}\t{_escaped(kind)}\n"


def _escaped(text: str) -> str:
    """Return a text that can be printed as COPY takes it."""
    return text.replace("\\", "\\\\")

"""One pass over one log file: what it holds of each window, and a row for each of their events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from zlib import crc32

from refresh_assets.windows.log_rows import Rows
from refresh_assets.windows.tracking_event import BrokenLineError, Event, read_event
from refresh_assets.windows.window import Window

EARLIEST = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""An event before this, or more than a day ahead of our clock, has a wrong clock behind it: its line is broken."""
AHEAD = timedelta(days=1)
_BOM = b"\xef\xbb\xbf"
Chunk = tuple[int, list[bytes]]
"""Some lines, and the offset in bytes at which the first of them begins."""


@dataclass
class Tally:
    """What a file holds of a window: its events, the sum of their lines' CRC-32, and broken lines among them."""

    events: int = 0
    sum: int = 0
    broken: int = 0

    def add(self, line_sum: int) -> None:
        self.events += 1
        self.sum += line_sum


@dataclass
class FileFacts:
    """What one pass found: its span of time, lines that are no events, and the wanted windows it holds something of.

    `unplaced` are broken lines of a file in which no event says when; `place` is where the first broken line is.
    `ahead` is the first moment that was ahead of our clock: from then on its line is read otherwise.
    """

    first: datetime | None = None
    last: datetime | None = None
    blank: int = 0
    comment: int = 0
    broken: int = 0
    unplaced: int = 0
    place: str = ""
    ahead: datetime | None = None
    tallies: dict[Window, Tally] = field(default_factory=dict)


class Spans:
    """Windows in ascending order and apart from each other, asked for the one that holds a moment."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows
        self._sinces = [window.since for window in windows]
        self._untils = [window.until for window in windows]

    def index(self, at: datetime) -> int:
        """Return the index of a moment's window, or -1 where it is in none."""
        index = bisect_right(self._sinces, at) - 1
        return index if index >= 0 and at < self._untils[index] else -1


class Scan:
    """Reads one file.

    `write` gets the `rows` of the wanted events, where such are to be made. A broken line is counted in the window of
    the event before it, at the file's beginning in that of the first event.
    """

    def __init__(self, name: str, spans: Spans, rows: Rows | None = None, write: Callable[[str], object] = len) -> None:
        self._name = name
        self._spans = spans
        self._rows = rows
        self._write = write
        self._latest = datetime.now(timezone.utc) + AHEAD
        self._tallies = [Tally() for _ in spans.windows]
        self._facts = FileFacts()
        # The window of the last event; None before the first one, -1 in none of the wanted.
        self._current: int | None = None

    def read(self, chunks: Iterable[Chunk]) -> FileFacts:
        """Read the file to its end."""
        facts = self._facts
        for start, lines in chunks:
            if start == 0 and lines[0].startswith(_BOM):
                lines[0] = lines[0][len(_BOM) :]
            made = self._take(start, lines)
            if made:
                self._write("".join(made))
        facts.tallies = {
            window: tally
            for window, tally in zip(self._spans.windows, self._tallies, strict=True)
            if tally.events or tally.broken
        }
        return facts

    def _take(self, start: int, lines: list[bytes]) -> list[str]:
        """Take some lines in and return the rows of the wanted events among them.

        This is where the time goes: once around for each line of the log.
        """
        made: list[str] = []
        facts, index_of, current = self._facts, self._spans.index, self._current
        first, last = facts.first or self._latest, facts.last or EARLIEST
        for place, line in enumerate(lines):
            text = line
            if text[:1] != b"{" or text[-1:] != b"}":
                text = line.strip()
                if self._is_no_event(text):
                    continue
            try:
                event = self._event(text)
            except BrokenLineError as error:
                self._count_broken(start, lines, place, error)
                continue
            at = event[0]
            if at < first:  # noqa: PLR1730 (a call costs more)
                first = at
            if at > last:  # noqa: PLR1730
                last = at
            index = index_of(at)
            if index != current:
                self._enter(index)
                current = index
            if index >= 0:
                made.append(self._wanted(index, event, crc32(text)))
        if current is not None:
            facts.first, facts.last = first, last
        return made

    def _event(self, text: bytes) -> Event:
        event = read_event(text)
        if not EARLIEST <= event[0] <= self._latest:
            if event[0] > self._latest:
                self._facts.ahead = min(event[0], self._facts.ahead or event[0])
            raise BrokenLineError("its time is before 2000 or ahead of the clock")
        return event

    def _wanted(self, index: int, event: Event, line_sum: int) -> str:
        """Tally an event of a wanted window and return its row, where rows are wanted."""
        self._tallies[index].add(line_sum)
        return self._rows.of(index, event, line_sum) if self._rows is not None else ""

    def _is_no_event(self, text: bytes) -> bool:
        if not text:
            self._facts.blank += 1
        elif text.startswith(b"#"):
            self._facts.comment += 1
        else:
            return False
        return True

    def _enter(self, index: int) -> None:
        begins, self._current = self._current is None, index
        if begins:
            early, self._facts.unplaced = self._facts.unplaced, 0
            if index >= 0:
                self._tallies[index].broken += early

    def _count_broken(self, start: int, lines: list[bytes], place: int, error: BrokenLineError) -> None:
        facts = self._facts
        facts.broken += 1
        if not facts.place:
            offset = start + sum(map(len, lines[:place])) + place
            facts.place = f"{self._name}, byte {offset}: {error}"
        if self._current is None:
            facts.unplaced += 1
        elif self._current >= 0:
            self._tallies[self._current].broken += 1

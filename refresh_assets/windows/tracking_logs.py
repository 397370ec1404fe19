"""The event log of Open edX: tracking log files, read line by line into Postgres, which counts."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.windows.log_catalogue import Catalogue
from refresh_assets.windows.log_folder import LocalFolder, LogFile, LogFolder
from refresh_assets.windows.log_lines import DamagedFileError, blocks, lines
from refresh_assets.windows.log_rows import Rows
from refresh_assets.windows.log_scan import FileFacts, Scan, Spans, Tally
from refresh_assets.windows.source import REPEATED, BrokenLinesError, LineCounts, Seen, Staged
from refresh_assets.windows.source_settings import LogSettings
from refresh_assets.windows.window import Window

ROUNDS = 3
"""How often the files are read, at most, until none took another's name meanwhile."""
_SQL = queries("refresh_assets.windows", "sql/log.sql")


class _Rotated(Exception):  # noqa: N818
    """A file went or took another's name while the files were read."""


@dataclass(frozen=True)
class TrackingLogs:
    """Log files of JSON lines.

    A course is the `course_id` of an event's context, or `site`; a kind its `event_type`, or `page` where that is an
    address; a learner the `user_id` of its context. A line that stands there twice counts once.
    """

    settings: LogSettings

    @property
    def name(self) -> str:
        return f"tracking logs in {self.settings.base.url}"

    @property
    def column_dependencies(self) -> Mapping[str, Sequence[str]]:
        """Return for each column of the metrics the fields of an event that decide it."""
        return {
            "since": ["time"],
            "until": ["time"],
            "course": ["context.course_id"],
            "kind": ["event_type"],
            "events": ["time"],
            "learners": ["context.user_id"],
            "first_event": ["time"],
            "last_event": ["time"],
            "suppressed": ["context.user_id"],
        }

    def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
        """Copy the windows' events from all files that may hold some, and count; `progress` gets the bytes read.

        Raises BrokenLinesError, and RefreshError where a file cannot be read to its end.
        """
        copied = 0

        def one_round(files: _Round) -> list[FileFacts]:
            nonlocal copied
            conn.execute(_SQL["drop"])
            conn.execute(_SQL["create"])
            rows, cursor = Rows(), conn.cursor()
            with cursor.copy(_SQL["copy"]) as copy:
                facts = [files.skipped(file) or files.scan(file, rows, copy.write, progress) for file in files.listed]
            copied = cursor.rowcount - rows.defined
            return facts

        facts = self._rounds(windows, one_round)
        tallies, unplaced = _added_up(facts), sum(each.unplaced for each in facts)
        self._check_broken(windows, tallies, unplaced, next((each.place for each in facts if each.place), ""))
        conn.execute(_SQL["memory"])
        bounds = {"since": [w.since for w in windows], "until": [w.until for w in windows]}
        conn.execute(_SQL["fill"], bounds)
        repeated = conn.execute(_SQL["counted"]).fetchone() != (copied,)
        conn.execute(_SQL["drop"])
        counts = LineCounts(*(sum(getattr(each, name) for each in facts) for name in ("blank", "comment", "broken")))
        seen = {window: _seen(window, tallies[window]) for window in windows}
        return Staged(seen, counts, (REPEATED,) if repeated else ())

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        """Tell what the files hold of the windows; files known not to have changed are not read again.

        Of a server that does not tell which files have changed all would be fetched: then no window is told of.
        """

        def one_round(files: _Round) -> list[FileFacts]:
            if files.dear:
                return []
            return [files.known(file) or files.scan(file) for file in files.listed]

        tallies = _added_up(self._rounds(windows, one_round))
        return {window: _seen(window, tallies[window]) for window in windows if tallies[window].events}

    def _rounds(self, windows: Sequence[Window], one_round: Callable[[_Round], list[FileFacts]]) -> list[FileFacts]:
        """Read the files, anew where one was rotated meanwhile, and remember what they hold."""
        folder = _folder(self.settings)
        catalogue = Catalogue(self.settings.home, self.settings.base.url)
        why = ""
        for _ in range(ROUNDS):
            files = _Round(folder, catalogue, windows)
            try:
                facts = one_round(files)
                files.end()
            except _Rotated as rotated:
                why = str(rotated)
                continue
            return facts
        raise RefreshError(
            f"the files in {self.settings.base.url} took other names or went each of the {ROUNDS} times that they were "
            f"read; run again when they are rotated less often{why}"
        )

    def _check_broken(
        self, windows: Sequence[Window], tallies: Mapping[Window, Tally], unplaced: int, place: str
    ) -> None:
        share = self.settings.broken_share
        bad = []
        for window in windows:
            broken = tallies[window].broken + unplaced
            if broken > share * (broken + tallies[window].events):
                bad.append(window)
        if bad:
            # How many there are, and of how many, would tell how many events the window has.
            raise BrokenLinesError(
                f"more than the share {share:g} of the lines of {_listed(bad)} cannot be read as events; one of them: "
                f"{place}; not loaded: mend the file, or raise WINDOW_BROKEN_SHARE",
                bad,
            )


class _Round:
    """One reading of the files as they were listed at its beginning."""

    def __init__(self, folder: LogFolder, catalogue: Catalogue, windows: Sequence[Window]) -> None:
        self._folder = folder
        self._catalogue = catalogue
        self._windows = list(windows)
        self._spans = Spans(windows)
        self._read: dict[LogFile, FileFacts] = {}
        self._bytes = 0
        self._gone: OSError | None = None
        self.listed = folder.files()
        self.dear = folder.remote and any(file.version is None for file in self.listed)
        self._by_name = {file.name: file for file in self.listed}

    def known(self, file: LogFile) -> FileFacts | None:
        return self._catalogue.facts(file, self._windows)

    def skipped(self, file: LogFile) -> FileFacts | None:
        """Return what is known of a file that is known to hold no event of the windows."""
        facts = self.known(file)
        return facts if facts is not None and not any(tally.events for tally in facts.tallies.values()) else None

    def scan(
        self,
        file: LogFile,
        rows: Rows | None = None,
        write: Callable[[str], object] = len,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> FileFacts:
        """Read a file to its end. Raises RefreshError where it is damaged; one that is gone shows at the end."""
        try:
            with self._folder.open(file) as opened:
                texts = self._counted(blocks(opened), progress)
                facts = Scan(file.name, self._spans, rows, write).read(lines(self._whole(file, texts)))
        except FileNotFoundError as error:
            # An error would break off the COPY, and with it the transaction that the next round needs.
            self._gone = error
            return FileFacts()
        self._read[file] = facts
        return facts

    def end(self) -> None:
        """Remember what was found. Raises _Rotated where another file has taken a name meanwhile, or one is gone."""
        now = self._folder.files()
        nodes = {file.name: file.node for file in now}
        if self._gone is not None:
            raise _Rotated(f" ({self._gone})")
        if nodes != {file.name: file.node for file in self.listed}:
            raise _Rotated
        unchanged = set(now)
        for file, facts in self._read.items():
            if file in unchanged:
                self._catalogue.keep(file, self._windows, facts)
        self._catalogue.save(now)

    def _counted(self, texts: Iterable[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
        for text in texts:
            self._bytes += len(text)
            yield text
            progress(self._bytes)

    def _whole(self, file: LogFile, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a file's text. Raises RefreshError where its end is missing.

        A file that is being packed is incomplete as long as the plain one stands beside it, which is read as well;
        what stands in both counts once.
        """
        plain = self._by_name.get(file.name[:-3]) if file.name.endswith(".gz") else None
        beginning = _Beginning()
        try:
            for text in texts:
                if plain is not None:
                    beginning.add(text)
                yield text
        except DamagedFileError as error:
            if plain is None or not self._begins(plain, beginning):
                raise RefreshError(
                    f"{file.name}: {error}; what it held is not known, so nothing was loaded: put a whole copy in its "
                    "place, or move it away"
                ) from error

    def _begins(self, file: LogFile, beginning: _Beginning) -> bool:
        """Tell whether a file begins with just these bytes."""
        found = _Beginning()
        with contextlib.suppress(DamagedFileError), self._folder.open(file) as opened:
            for text in blocks(opened):
                found.add(text[: beginning.length - found.length])
                if found.length == beginning.length:
                    break
        return found == beginning


@dataclass
class _Beginning:
    """The first bytes of a file: how many, and their CRC-32."""

    length: int = 0
    sum: int = 0

    def add(self, text: bytes) -> None:
        self.length += len(text)
        self.sum = crc32(text, self.sum)


def _folder(settings: LogSettings) -> LogFolder:
    if settings.base.is_file:
        return LocalFolder(settings)
    # What is on this machine need not pay for an HTTP client.
    from refresh_assets.windows.log_server import LogServer

    return LogServer(settings)


def _added_up(facts: Iterable[FileFacts]) -> Mapping[Window, Tally]:
    total: dict[Window, Tally] = defaultdict(Tally)
    for each in facts:
        for window, tally in each.tallies.items():
            total[window].events += tally.events
            total[window].sum += tally.sum
            total[window].broken += tally.broken
    return total


def _seen(window: Window, tally: Tally) -> Seen:
    return Seen(window, tally.events, f"{tally.events}:{tally.sum}")


def _listed(windows: Sequence[Window]) -> str:
    named = ", ".join(map(str, windows[:3]))
    return named + (f" and {len(windows) - 3} more windows" if len(windows) > 3 else "")  # noqa: PLR2004

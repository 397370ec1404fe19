"""What is known of log files that have not changed, kept on disk, so that they need not be read again.

It may be lost or out of date at any time: an entry holds only for the version of the file that it was made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from refresh_assets.windows.log_folder import LogFile
from refresh_assets.windows.log_scan import AHEAD, FileFacts, Tally
from refresh_assets.windows.window import Window

_FORMAT = 2
_MOMENTS = ("first", "last", "ahead")
MOST_BYTES = 200_000_000
MOST_WINDOWS = 1000
"""Windows remembered of a file, the newest. Only those within its span of time: in the others it holds nothing."""


class Catalogue:
    """The facts of files by name. `asked` of an entry are the windows for which it tells all there is."""

    def __init__(self, home: Path, url: str) -> None:
        self._path = home / "windows" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"
        self._entries: dict[str, dict[str, Any]] = self._load()

    def facts(self, file: LogFile, windows: list[Window]) -> FileFacts | None:
        """Return what is known of a file in this version, where it is enough to tell of all these windows."""
        entry = self._entries.get(file.name)
        if entry is None or file.version is None or entry["version"] != file.version:
            return None
        moments = (datetime.fromisoformat(entry[name]) if entry[name] else None for name in _MOMENTS)
        first, last, ahead = moments
        if ahead is not None and ahead <= datetime.now(timezone.utc) + AHEAD:
            return None
        tallies = {}
        for window in windows:
            if not _meets(window, first, last):
                continue
            if str(window) not in entry["asked"]:
                return None
            tally = entry["tallies"].get(str(window))
            if tally is not None:
                tallies[window] = Tally(*tally)
        counts = {name: entry[name] for name in ("blank", "comment", "broken", "unplaced", "place")}
        return FileFacts(first=first, last=last, ahead=ahead, tallies=tallies, **counts)

    def keep(self, file: LogFile, windows: list[Window], facts: FileFacts) -> None:
        """Remember what a pass over all of a file's lines found of these windows."""
        if file.version is None:
            self._entries.pop(file.name, None)
            return
        old = self._entries.get(file.name)
        before = old if old is not None and old["version"] == file.version else {"asked": [], "tallies": {}}
        met = (str(window) for window in windows if _meets(window, facts.first, facts.last))
        asked = sorted({*before["asked"], *met})[-MOST_WINDOWS:]
        tallies = before["tallies"] | {
            str(window): list(asdict(tally).values()) for window, tally in facts.tallies.items()
        }
        self._entries[file.name] = {
            "version": file.version,
            **{name: moment.isoformat() if (moment := getattr(facts, name)) else "" for name in _MOMENTS},
            **{name: getattr(facts, name) for name in ("blank", "comment", "broken", "unplaced", "place")},
            "asked": asked,
            "tallies": {window: tallies[window] for window in asked if window in tallies},
        }

    def save(self, files: list[LogFile]) -> None:
        """Write to disk what is known of these files. A disk that refuses costs time at the next run, no more."""
        names = {file.name for file in files}
        self._entries = {name: entry for name, entry in self._entries.items() if name in names}
        text = json.dumps({"format": _FORMAT, "files": self._entries}, separators=(",", ":"))
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(name).replace(self._path)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise

    def _load(self) -> dict[str, dict[str, Any]]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if self._path.stat().st_size <= MOST_BYTES:
                found = json.loads(self._path.read_text(encoding="utf-8"))
                if found["format"] == _FORMAT and isinstance(found["files"], dict):
                    return dict(found["files"])
        return {}


def _meets(window: Window, first: datetime | None, last: datetime | None) -> bool:
    """Tell whether a window meets a file's span of time; a file without any event has none."""
    return first is not None and last is not None and window.since <= last and first < window.until

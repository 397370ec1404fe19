"""Late events in tracking logs, and files that need not be read again because they cannot have changed."""

from __future__ import annotations

import gzip
import os
import time
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import pytest

from refresh_assets.windows import log_catalogue, log_folder, log_scan
from refresh_assets.windows.source import LineCounts
from refresh_assets.windows.source_settings import read_logs
from refresh_assets.windows.tracking_logs import TrackingLogs
from refresh_assets_tests.event_logs import LIVE, Counting, event, events, log_of, logs_at, moment, window


@pytest.fixture(autouse=True)
def _quick_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files settle sooner, for tests that wait for it."""
    monkeypatch.setattr(log_folder, "SETTLED_SECONDS", 0.2)


def age(folder: Path) -> None:
    """Wait until the last change of every file is long enough ago to be relied on."""
    newest = max(path.stat().st_ctime for path in folder.iterdir())
    while time.time() - newest <= log_folder.SETTLED_SECONDS:
        time.sleep(0.02)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened."""
    names: list[str] = []
    original = log_folder.LocalFolder.open

    def noted(place: log_folder.LocalFolder, file: log_folder.LogFile) -> AbstractContextManager[BinaryIO]:
        names.append(file.name)
        return original(place, file)

    monkeypatch.setattr(log_folder.LocalFolder, "open", noted)
    return names


def test_looking_tells_what_staging_told(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    windows = [window(0), window(1), window(2)]
    (folder / LIVE).write_bytes(log_of(*events(3), b"broken", *events(90, day=2)))
    logs = TrackingLogs(
        read_logs({"WINDOW_LOGS": str(folder), "REFRESH_HOME": str(folder), "WINDOW_BROKEN_SHARE": "1"})
    )
    staged = counting.stage(logs, windows).seen
    assert logs.look(windows) == {each: staged[each] for each in (windows[0], windows[2])}


def test_a_late_event_changes_the_mark_of_its_window_alone(folder: Path, logs: TrackingLogs) -> None:
    windows = [window(0), window(1)]
    (folder / LIVE).write_bytes(log_of(*events(3), *events(3, day=1)))
    before = logs.look(windows)
    (folder / f"{LIVE}-late").write_bytes(log_of(*events(1, hours=5)))
    after = logs.look(windows)
    assert after[windows[0]].mark != before[windows[0]].mark
    assert after[windows[1]] == before[windows[1]]


def test_rotating_and_packing_change_no_mark(folder: Path, logs: TrackingLogs) -> None:
    (folder / LIVE).write_bytes(log_of(*events(3)))
    before = logs.look([window()])
    (folder / LIVE).unlink()
    (folder / f"{LIVE}-1.gz").write_bytes(gzip.compress(log_of(*events(3))))
    (folder / LIVE).write_bytes(b"")
    assert logs.look([window()]) == before


def test_unchanged_files_are_not_read_again_and_changed_ones_are(
    folder: Path, logs: TrackingLogs, counting: Counting, opened: list[str]
) -> None:
    for day in range(3):
        (folder / f"{LIVE}-{day}").write_bytes(log_of(b"# of a day", *events(3 + day, day=day)))
    age(folder)
    windows = [window(0), window(1), window(2)]
    staged = counting.stage(logs, windows)
    assert len(opened) == 3
    assert logs.look(windows) == staged.seen
    assert len(opened) == 3
    assert counting.cells(logs, [window(1)])
    assert opened[3:] == [f"{LIVE}-1"]
    # The files that hold nothing of the window are told of as if they had been read.
    assert counting.staged is not None
    assert counting.staged.lines == LineCounts(blank=0, comment=3, broken=0)
    with (folder / f"{LIVE}-2").open("ab") as file:
        file.write(log_of(*events(1, hours=9, day=0)))
    assert logs.look([window()])[window()] != staged.seen[window()]
    assert opened[4:] == [f"{LIVE}-2"]


def test_a_file_of_the_same_size_and_time_is_read_again_when_it_was_written(
    folder: Path, logs: TrackingLogs, opened: list[str]
) -> None:
    path = folder / LIVE
    path.write_bytes(log_of(*events(3)))
    age(folder)
    before = logs.look([window()])
    times = path.stat()
    path.write_bytes(log_of(*events(3)).replace(b'"user_id": 3', b'"user_id": 4'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert logs.look([window()]) != before


def test_a_file_that_was_written_just_now_is_read_again(
    folder: Path, logs: TrackingLogs, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_folder, "SETTLED_SECONDS", 3600)
    (folder / LIVE).write_bytes(log_of(*events(3)))
    assert logs.look([window()]) == logs.look([window()])
    assert len(opened) == 2


def test_an_event_that_was_ahead_of_the_clock_counts_once_its_time_has_come(
    folder: Path, tmp_path: Path, counting: Counting, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_clock(clock: datetime) -> None:
        for module in (log_scan, log_catalogue):
            monkeypatch.setattr(module, "AHEAD", clock - datetime.now(timezone.utc))

    (folder / LIVE).write_bytes(log_of(*events(3), event(moment(9))))
    age(folder)
    logs = logs_at(str(folder), tmp_path, WINDOW_BROKEN_SHARE="0.5")
    set_clock(moment(5))
    for _look in range(2):
        assert logs.look([window()])[window()].events == 3
    assert len(opened) == 1
    set_clock(moment(10))
    assert logs.look([window()])[window()].events == 4
    assert counting.stage(logs, [window()]).seen[window()].events == 4


@pytest.mark.parametrize("body", ["", "{", "[]", '{"format": 2, "files": 7}', '{"format": 0, "files": {}}'])
def test_what_was_remembered_may_be_lost_at_any_time(
    folder: Path, logs: TrackingLogs, tmp_path: Path, body: str
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(3)))
    age(folder)
    before = logs.look([window()])
    (kept,) = (tmp_path / "home" / "windows").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    kept.write_text(body)
    assert logs.look([window()]) == before

"""Tracking logs, counted: all files, every line, each once, however they lie and whatever else is in them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.windows import log_folder, log_rows
from refresh_assets.windows.source import REPEATED, BrokenLinesError, LineCounts
from refresh_assets.windows.tracking_logs import TrackingLogs
from refresh_assets_tests.event_logs import LIVE, NORTH, PLAY, Counting, event, events, log_of, logs_at, moment, window

# What counts


def test_events_learners_first_and_last_are_counted_by_course_and_kind(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    lines = [event(moment(hours), user) for user, hours in ((7, 1), (7, 2.5), (8, 3))]
    lines += [event(moment(4), course="C\\N\\t", user="a\\b"), event(moment(5), kind="problem_check", user=None)]
    (folder / LIVE).write_bytes(log_of(*lines))
    assert counting.cells(logs, [window()]) == {
        PLAY: (3, 2, moment(1), moment(3)),
        (0, "C\\N\\t", "play_video"): (1, 1, moment(4), moment(4)),
        (0, NORTH, "problem_check"): (1, 0, moment(5), moment(5)),
    }


def test_a_window_holds_its_beginning_and_not_its_end(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    tick = timedelta(microseconds=1)
    moments = (window().since - tick, window().since, window().until - tick, window().until)
    (folder / LIVE).write_bytes(log_of(*(event(at, user) for user, at in enumerate(moments, start=7))))
    assert counting.cells(logs, [window()]) == {PLAY: (2, 2, moments[1], moments[2])}


def test_all_files_of_the_folder_are_read_packed_or_not(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    for number in range(1, 4):
        (folder / f"tracking.log-2026030{number}-1772424907.gz").write_bytes(gzip.compress(log_of(*events(number))))
    (folder / LIVE).write_bytes(log_of(*events(5, hours=2)))
    (folder / "other.log").write_bytes(log_of(*events(9, hours=3)))
    (folder / "tracking.log.d").mkdir()
    ((count, learners, _, _),) = counting.cells(logs, [window()]).values()
    # The three packed ones begin alike, and what stands there twice counts once.
    assert (count, learners) == (3 + 5, 5)


def test_windows_of_one_pass_hold_what_each_holds_alone(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    windows = [window(0), window(1), window(4, days=3), window(7)]
    (folder / LIVE).write_bytes(log_of(*(line for day in range(10) for line in events(3 + day, day=day))))
    together = counting.cells(logs, windows)
    alone = {
        (number, course, kind): cell
        for number, each in enumerate(windows)
        for (_, course, kind), cell in counting.cells(logs, [each]).items()
    }
    assert together == alone
    assert len(together) == 4


def test_a_file_may_be_named_by_itself(folder: Path, tmp_path: Path, counting: Counting) -> None:
    (folder / "any.name").write_bytes(log_of(*events(3)))
    for place in (str(folder / "any.name"), (folder / "any.name").as_uri()):
        assert len(counting.cells(logs_at(place, tmp_path), [window()])) == 1


def test_another_pattern_names_other_files(folder: Path, tmp_path: Path, counting: Counting) -> None:
    (folder / "events-1.jsonl").write_bytes(log_of(*events(3)))
    logs = logs_at(folder.as_uri() + "/", tmp_path, WINDOW_LOG_FILES="events-*.jsonl")
    assert len(counting.cells(logs, [window()])) == 1


def test_a_line_that_stands_there_twice_counts_once_and_is_told(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(3), *events(3)))
    (folder / f"{LIVE}-copy").write_bytes(log_of(*events(2)).replace(b"\n", b"\r\n"))
    ((count, learners, _, _),) = counting.cells(logs, [window()]).values()
    assert (count, learners) == (3, 3)
    assert counting.staged is not None
    assert counting.staged.notes == (REPEATED,)


def test_more_cells_than_are_remembered_are_counted_all_the_same(
    folder: Path, logs: TrackingLogs, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "MOST_CELLS", 2)
    lines = [event(moment(user), user, course=course) for user in range(6) for course in ("a", "b", "c")]
    (folder / LIVE).write_bytes(log_of(*lines, *lines[:4]))
    cells = counting.cells(logs, [window(), window(1)])
    assert cells == {(0, course, "play_video"): (6, 5, moment(0), moment(5)) for course in ("a", "b", "c")}


def test_two_events_of_one_moment_are_two(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    (folder / LIVE).write_bytes(log_of(event(moment(1), page="a"), event(moment(1), page="b")))
    assert counting.cells(logs, [window()]) == {PLAY: (2, 1, moment(1), moment(1))}
    assert counting.staged is not None
    assert counting.staged.notes == ()


def test_the_progress_is_in_bytes(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    (folder / LIVE).write_bytes(log_of(*events(3)))
    counting.stage(logs, [window()])
    assert counting.progress == [(folder / LIVE).stat().st_size]


# What does not count


def test_comments_blank_and_broken_lines_are_counted(folder: Path, tmp_path: Path, counting: Counting) -> None:
    others = [b"# a comment", b"  # another", b"", b"  \t", b"\r", b"[]", b"\xff", b"{", b"\0\0"]
    (folder / LIVE).write_bytes(b"\xef\xbb\xbf" + log_of(*events(3), *others, *events(3, hours=2)))
    logs = logs_at(str(folder), tmp_path, WINDOW_BROKEN_SHARE="0.5")
    staged = counting.stage(logs, [window()])
    assert staged.lines == LineCounts(blank=3, comment=2, broken=4)
    assert staged.seen[window()].events == 6


@pytest.mark.parametrize("at", [datetime(1999, 12, 31, tzinfo=timezone.utc), datetime.now(timezone.utc) + timedelta(2)])
def test_a_date_far_off_makes_a_line_a_broken_one(
    folder: Path, tmp_path: Path, counting: Counting, at: datetime
) -> None:
    (folder / LIVE).write_bytes(log_of(event(at), *events(3)))
    logs = logs_at(str(folder), tmp_path, WINDOW_BROKEN_SHARE="0.5")
    assert counting.stage(logs, [window()]).lines == LineCounts(0, 0, 1)


@pytest.mark.parametrize(
    ("share", "sound", "broken", "loaded"),
    [("0.1", 9, 1, True), ("0.1", 9, 2, False), ("0.07", 93, 7, True), ("0.58", 42, 58, True), ("0.58", 41, 58, False)],
)
def test_more_than_the_set_share_of_broken_lines_fails_the_window(  # noqa: PLR0913
    folder: Path, tmp_path: Path, counting: Counting, *, share: str, sound: int, broken: int, loaded: bool
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(sound), *[b"broken"] * broken))
    logs = logs_at(str(folder), tmp_path, WINDOW_BROKEN_SHARE=share)
    if loaded:
        assert counting.cells(logs, [window()])
        return
    with pytest.raises(BrokenLinesError, match=rf"share {share} of the lines of 2026-03-02") as caught:
        counting.stage(logs, [window()])
    assert caught.value.windows == (window(),)


def test_broken_lines_fail_their_own_window_whether_alone_or_among_others(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(50), *events(2, day=1), b"broken", *events(50, day=2)))
    for windows in ([window(1)], [window(0), window(1), window(2)]):
        with pytest.raises(BrokenLinesError) as caught:
            counting.stage(logs, windows)
        assert caught.value.windows == (window(1),)
    assert counting.cells(logs, [window(0)])
    assert counting.cells(logs, [window(2)])


def test_broken_lines_before_the_first_event_are_of_its_window(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    (folder / LIVE).write_bytes(log_of(b"broken", *events(2), *events(50, day=1)))
    with pytest.raises(BrokenLinesError):
        counting.stage(logs, [window(0)])
    assert counting.cells(logs, [window(1)])


def test_a_file_of_which_nothing_can_be_read_fails_every_window_it_outweighs(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(50)))
    (folder / f"{LIVE}-notes").write_bytes(b"<html>\n" * 20)
    for _ in range(2):
        with pytest.raises(BrokenLinesError, match=r"tracking\.log-notes, byte 0: it is no JSON"):
            counting.stage(logs, [window()])
        assert logs.look([window()])


def test_the_error_of_broken_lines_leads_there_and_tells_no_number_of_events(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    body = log_of(*events(9), b"broken s3cret", *events(9, hours=2))
    (folder / LIVE).write_bytes(body)
    with pytest.raises(BrokenLinesError) as caught:
        counting.stage(logs, [window()])
    text = str(caught.value)
    assert f"tracking.log, byte {body.index(b'broken')}: it is no JSON in UTF-8" in text
    assert "s3cret" not in text
    assert "18" not in text.replace(str(body.index(b"broken")), "")


# Files that are not as they should be


def test_a_folder_without_a_log_is_an_error_and_no_empty_window(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    with pytest.raises(RefreshError, match=r"no file in .*logs is named tracking\.log\*"):
        counting.stage(logs, [window()])


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, counting: Counting) -> None:
    with pytest.raises(RefreshError, match=r"cannot be read .*WINDOW_LOGS"):
        counting.stage(logs_at(str(tmp_path / "nowhere"), tmp_path), [window()])


def test_what_is_no_file_is_not_read(tmp_path: Path, counting: Counting) -> None:
    os.mkfifo(tmp_path / LIVE)
    for place in ("/dev/zero", str(tmp_path / LIVE)):
        with pytest.raises(RefreshError, match="is no ordinary file"):
            counting.stage(logs_at(place, tmp_path), [window()])


def test_gzip_that_is_cut_off_loads_nothing(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    (folder / f"{LIVE}-1.gz").write_bytes(gzip.compress(log_of(*events(99)))[:-9])
    (folder / LIVE).write_bytes(log_of(*events(9)))
    with pytest.raises(RefreshError, match=r"tracking\.log-1\.gz: its gzip data is cut off"):
        counting.stage(logs, [window()])


def test_a_file_that_is_being_packed_counts_once(folder: Path, logs: TrackingLogs, counting: Counting) -> None:
    body = log_of(*events(2000))
    (folder / f"{LIVE}-1").write_bytes(body)
    (folder / f"{LIVE}-1.gz").write_bytes(gzip.compress(body)[:5000])
    assert counting.cells(logs, [window()])[PLAY][:2] == (2000, 2000)


def test_a_packed_file_that_is_cut_off_is_not_made_good_by_another_file_of_its_name(
    folder: Path, logs: TrackingLogs, counting: Counting
) -> None:
    (folder / f"{LIVE}.gz").write_bytes(gzip.compress(log_of(*events(2000)))[:5000])
    (folder / LIVE).write_bytes(log_of(*events(9, day=1)))
    with pytest.raises(RefreshError, match=r"tracking\.log\.gz: its gzip data is cut off"):
        counting.stage(logs, [window()])


Opening = Callable[[log_folder.LocalFolder, log_folder.LogFile], AbstractContextManager[BinaryIO]]


def _handing(opener: Opening) -> Opening:
    """Return a method that hands over to a function."""
    return lambda place, file: opener(place, file)  # noqa: PLW0108


class Rotating:
    """A folder whose live file is rotated when it is read, so many times."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.folder, self.left = folder, times
        self._open = log_folder.LocalFolder.open
        monkeypatch.setattr(log_folder.LocalFolder, "open", _handing(self.open))

    def open(self, place: log_folder.LocalFolder, file: log_folder.LogFile) -> AbstractContextManager[BinaryIO]:
        if self.left and file.name == LIVE:
            self.left -= 1
            (self.folder / LIVE).rename(self.folder / f"{LIVE}-{self.left}")
            if self.left != 1:
                (self.folder / LIVE).write_bytes(log_of(*events(1, hours=2)))
        return self._open(place, file)


def test_a_file_that_is_rotated_meanwhile_is_not_missed(
    folder: Path, logs: TrackingLogs, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(9)))
    Rotating(folder, monkeypatch, 1)
    assert counting.cells(logs, [window()])[PLAY][:2] == (10, 9)


def test_files_that_never_stand_still_are_told(
    folder: Path, logs: TrackingLogs, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / LIVE).write_bytes(log_of(*events(9)))
    Rotating(folder, monkeypatch, 100)
    with pytest.raises(RefreshError, match="took other names"):
        counting.stage(logs, [window()])

"""The progress of long transfers and loads: lines at sensible intervals, and a bar on a terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest

from refresh_assets.published.progress import Progress, megabytes, watching
from refresh_assets_tests.shop import Shop, dataset_rows

MB = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told(seconds: int, megabytes_a_second: int, size: int | None = 600 * MB, rows: int | None = 3_000_000) -> list[str]:
    """Return the lines that a transfer gives, asked once a second."""
    clock, lines = Clock(), list[str]()
    progress = Progress("datasets.csv: staged", lines.append, size, rows, clock)
    for second in range(1, seconds + 1):
        clock.now += 1
        progress(second * megabytes_a_second * MB)
    return lines


def test_what_is_sent_once_more_is_counted_from_there() -> None:
    clock, lines = Clock(), list[str]()
    progress = Progress("datasets.csv: staged", lines.append, 600 * MB, None, clock)
    for second, done in ((30, 300), (35, 20), (40, 40), (62, 128)):
        clock.now = 100.0 + second
        progress(done * MB)
    assert lines[-1] == "datasets.csv: staged 128.0 MB of 600.0 MB (21 %), 4.7 MB/s, about 100 s left"


def test_a_line_has_bytes_rows_rate_and_the_time_that_is_left() -> None:
    assert told(10, 6) == [
        "datasets.csv: staged 60.0 MB of 600.0 MB (10 %), about 300,000 of 3,000,000 rows, 6.0 MB/s, about 90 s left"
    ]


def test_what_is_done_in_a_moment_is_not_told() -> None:
    assert told(9, 100) == []


def test_lines_come_less_often_the_longer_it_takes() -> None:
    lines = told(600, 1, size=None, rows=None)
    assert [line.split()[2] for line in lines[:5]] == ["10.0", "30.0", "70.0", "130.0", "190.0"]
    assert len(lines) < 14


def test_the_end_of_a_long_one_is_told() -> None:
    assert told(100, 6)[-1] == "datasets.csv: staged 600.0 MB in 100 s"


def test_without_a_known_size_there_is_no_share_and_no_rest() -> None:
    assert told(10, 6, size=None, rows=None) == ["datasets.csv: staged 60.0 MB, 6.0 MB/s"]


def test_a_watcher_sees_every_step() -> None:
    seen = []
    with watching(lambda what, done, size: seen.append((what, done, size))):
        Progress("x", print)(5, 10)
    Progress("x", print)(6, 10)
    assert seen == [("x", 5, 10)]


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_500_000_000, "2.5 GB")])
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert megabytes(size) == text


@pytest.mark.slow
def test_a_terminal_shows_a_bar_and_standard_output_stays_as_it_is(shop: Shop) -> None:
    shop.publish([(*row[:1], "A long title " * 100, *row[2:]) for row in dataset_rows(3000)])
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "refresh_assets.cli", "run", "--table", "datasets"],
        env={**shop.env, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 100
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                break
    out = process.communicate(timeout=60)[0].decode()
    os.close(ours)
    assert out.endswith("INFO refresh: datasets: first load: loaded 3000 rows\n")
    assert out.count("\n") == 1
    assert "datasets.csv: staged" in shown.decode()
    assert "100%" in shown.decode()

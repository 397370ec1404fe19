"""The fast check and the exact one against a plain reading of many small random files, with all kinds of blocks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refresh_assets.published.csv_file import dialect
from refresh_assets.published.csv_file.dialect import Cut, FileFormatError, Layout, scan
from refresh_assets.published.csv_file.locate import records
from refresh_assets_tests import csv_reference

pytestmark = pytest.mark.slow

FILES = 1500


@pytest.mark.parametrize("block_size", [1, 2, 3, 7, 4096])
@pytest.mark.parametrize("make", [csv_reference.soup, csv_reference.nearly_sound])
def test_random_files_are_judged_as_a_plain_reading_judges_them(
    make: Callable[[random.Random], bytes], block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "CUT_BYTES", 1)
    chance = random.Random(f"{make.__name__} {block_size}")  # noqa: S311
    path = tmp_path / "random.csv"
    seen, cuts = set(), 0
    for _ in range(FILES):
        data = make(chance)
        path.write_bytes(data)
        expected = csv_reference.read(data)
        judged = _judge(path, block_size)
        if isinstance(expected, csv_reference.Faulty):
            _same_fault(judged, expected, data)
        else:
            _same_layout(judged, expected, data)
            _same_rows(path, expected, data)
        cuts += len(judged.cuts) if isinstance(judged, Layout) else 0
        seen.add(getattr(expected, "word", "sound"))
    assert len(seen) >= 9, seen
    assert cuts > FILES // 4 or make is csv_reference.soup or block_size > 7


def _judge(path: Path, block_size: int) -> Layout | FileFormatError:
    try:
        return scan(path, "random.csv", block_size=block_size)
    except FileFormatError as error:
        return error


def _same_fault(found: Layout | FileFormatError, expected: csv_reference.Faulty, data: bytes) -> None:
    assert isinstance(found, FileFormatError), (data, expected)
    assert found.line == expected.line, (data, found, expected)
    # What is recognised by its first bytes is called by its name.
    assert expected.word in str(found) or "the file is UTF-" in str(found), (data, found, expected)
    assert f"line {expected.line}" in str(found)


def _same_layout(found: Layout | FileFormatError, expected: csv_reference.Sound, data: bytes) -> None:
    header, *rows = expected.records
    assert isinstance(found, Layout), (data, found)
    _same_rows_if_cut(found, expected, data)
    assert replace(found, cuts=()) == Layout(
        header=tuple(name or "" for name in header[2]),
        data_offset=expected.data_offset,
        line_end=expected.line_end.decode(),
        header_lines=header[1],
        rows=len(rows),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    ), data


def _same_rows_if_cut(found: Layout, expected: csv_reference.Sound, data: bytes) -> None:
    for cut in found.cuts:
        before = csv_reference.read(data[: cut.offset])
        behind = csv_reference.read(data[: found.data_offset] + data[cut.offset :])
        assert isinstance(before, csv_reference.Sound), (data, cut)
        assert isinstance(behind, csv_reference.Sound), (data, cut)
        assert len(before.records) == 1 + cut.rows, (data, cut)
        assert before.records + behind.records[1:] == [
            *expected.records[: 1 + cut.rows],
            *(
                (line - _lines_before(expected, cut), end - _lines_before(expected, cut), values)
                for line, end, values in expected.records[1 + cut.rows :]
            ),
        ], (data, cut)


def _lines_before(expected: csv_reference.Sound, cut: Cut) -> int:
    """Return the physical lines of the rows before a cut."""
    return expected.records[cut.rows][1] - expected.records[0][1]


def _same_rows(path: Path, expected: csv_reference.Sound, data: bytes) -> None:
    rows = records(path, scan(path, "random.csv"))
    assert [(row.line, row.end_line, row.values) for row in rows] == expected.records[1:], data

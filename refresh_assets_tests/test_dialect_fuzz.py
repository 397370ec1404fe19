"""The fast check and the exact one against a plain reading of many small random files, with all kinds of blocks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from refresh_assets.published.csv_file.dialect import FileFormatError, Layout, scan
from refresh_assets.published.csv_file.locate import records
from refresh_assets_tests import csv_reference

pytestmark = pytest.mark.slow

FILES = 1500


@pytest.mark.parametrize("block_size", [1, 2, 3, 7, 4096])
@pytest.mark.parametrize("make", [csv_reference.soup, csv_reference.nearly_sound])
def test_random_files_are_judged_as_a_plain_reading_judges_them(
    make: Callable[[random.Random], bytes], block_size: int, tmp_path: Path
) -> None:
    chance = random.Random(f"{make.__name__} {block_size}")  # noqa: S311
    path = tmp_path / "random.csv"
    seen = set()
    for _ in range(FILES):
        data = make(chance)
        path.write_bytes(data)
        expected = csv_reference.read(data)
        if isinstance(expected, csv_reference.Faulty):
            _same_fault(_judge(path, block_size), expected, data)
        else:
            _same_layout(_judge(path, block_size), expected, data)
            _same_rows(path, expected, data)
        seen.add(getattr(expected, "word", "sound"))
    assert len(seen) >= 9, seen


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
    assert found == Layout(
        header=tuple(name or "" for name in header[2]),
        data_offset=expected.data_offset,
        line_end=expected.line_end.decode(),
        header_lines=header[1],
        rows=len(rows),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    ), data


def _same_rows(path: Path, expected: csv_reference.Sound, data: bytes) -> None:
    rows = records(path, scan(path, "random.csv"))
    assert [(row.line, row.end_line, row.values) for row in rows] == expected.records[1:], data

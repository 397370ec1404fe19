"""From bytes to lines: gzip of any make, lines of any length, in memory of a fixed size."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator

import pytest

from refresh_assets.windows.log_lines import LONGEST_LINE, UNREADABLE, DamagedFileError, blocks, lines


def lines_of(body: bytes) -> list[bytes]:
    return [line for _, some in lines(blocks(io.BytesIO(body))) for line in some]


LOG = b"".join(b"line %d\n" % number for number in range(100_000))
LINES = LOG.split(b"\n")[:-1]


@pytest.mark.parametrize(
    "body",
    [
        LOG,
        LOG[:-1],
        gzip.compress(LOG),
        gzip.compress(LOG[:777_777]) + gzip.compress(LOG[777_777:]),
        gzip.compress(LOG) + gzip.compress(b""),
        gzip.compress(LOG) + b"\0" * 512,
    ],
    ids=["plain", "no newline at the end", "gzip", "two members", "an empty member", "padded"],
)
def test_the_lines_of_a_file_are_the_same_however_it_is_packed(body: bytes) -> None:
    assert lines_of(body) == LINES


def test_offsets_are_those_of_the_lines() -> None:
    body = b"x" * 700_000 + b"\nsecond\n\nfourth\n" + LOG
    for start, some in lines([body[at : at + 65_536] for at in range(0, len(body), 65_536)]):
        assert body[start:].startswith(some[0] + b"\n")


def test_an_empty_file_has_no_line() -> None:
    assert lines_of(b"") == []
    assert lines_of(gzip.compress(b"")) == []


@pytest.mark.parametrize("body", [gzip.compress(LOG)[:-1], gzip.compress(LOG)[:500], b"\x1f\x8b"])
def test_gzip_that_is_cut_off_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedFileError, match="cut off"):
        lines_of(body)


@pytest.mark.parametrize(
    "body", [gzip.compress(LOG)[:-8] + b"x" * 8, gzip.compress(LOG) + b"more", b"\x1f\x8bxxxxxxxx"]
)
def test_gzip_that_is_none_any_more_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedFileError, match="damaged"):
        lines_of(body)


@pytest.mark.parametrize("size", [LONGEST_LINE + 1, 5 * LONGEST_LINE])
def test_a_line_that_is_too_long_is_unreadable_and_the_next_one_is_not(size: int) -> None:
    assert lines_of(b"first\n" + b"x" * size + b"\nlast\n") == [b"first", UNREADABLE, b"last"]
    assert lines_of(b"first\n" + b"x" * size) == [b"first", UNREADABLE]


def test_the_longest_line_is_read() -> None:
    assert lines_of(b"x" * LONGEST_LINE + b"\n") == [b"x" * LONGEST_LINE]


def test_a_line_without_end_takes_no_memory() -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2000):
            yield b"x" * (1 << 18)

    tracemalloc.start()
    assert [some for _, some in lines(endless())] == [[UNREADABLE]]
    assert tracemalloc.get_traced_memory()[1] < 5 * LONGEST_LINE
    tracemalloc.stop()


def test_gzip_that_unpacks_to_very_much_takes_no_memory() -> None:
    body = gzip.compress(b"\n" * 100_000_000)
    tracemalloc.start()
    assert sum(len(some) for _, some in lines(blocks(io.BytesIO(body)))) == 100_000_000
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()

"""From a log file's bytes, plain or gzip, to its lines, in memory of a fixed size whatever is in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from refresh_assets.published.publisher.body import BodyError, CutShortError, Gzip

LONGEST_LINE = 1 << 20
"""Bytes; Open edX itself drops events above some 50,000."""
UNREADABLE = b"\xff"
"""Stands for a line that is too long: no UTF-8, so that it is a broken one."""
_BLOCK = 1 << 18
_GZIP = b"\x1f\x8b"


class DamagedFileError(Exception):
    """A gzip file that is cut off or is no gzip any more behind its beginning."""


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the text of a file, unpacked where its first bytes say gzip. Raises DamagedFileError and OSError."""
    block = file.read(_BLOCK)
    if not block.startswith(_GZIP):
        while block:
            yield block
            block = file.read(_BLOCK)
        return
    packed = Gzip()
    try:
        while block:
            yield from packed.feed(block)
            block = file.read(_BLOCK)
        packed.end()
    except CutShortError:
        raise DamagedFileError("its gzip data is cut off") from None
    except BodyError:
        raise DamagedFileError("its gzip data is damaged") from None


def lines(texts: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines, without their newlines, some at a time, with the offset in bytes at which the first begins."""
    start = offset = 0
    begun: bytes | None = b""
    for text in texts:
        parts = text.split(b"\n")
        offset += len(text)
        if begun is not None:
            parts[0] = begun + parts[0]
        if begun is None or len(parts[0]) > LONGEST_LINE:
            parts[0] = UNREADABLE
        last = parts.pop()
        if parts:
            yield start, parts
            start = offset - len(last)
        begun = None if last is UNREADABLE else last
    if begun is None or begun:
        yield start, [UNREADABLE if begun is None else begun]

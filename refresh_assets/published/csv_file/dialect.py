"""The strict check of a published CSV file, over its bytes, in one pass and in constant memory.

Each block is split at the quote byte. What then lies outside quotes is searched with the fast searches of `bytes`; that
says whether a block is sound. Only where one is not does `fault` look for the first fault, byte by byte.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from refresh_assets.published.csv_file.fault import Walk, fault_error, find_fault
from refresh_assets.published.csv_file.fields import split_fields
from refresh_assets.published.csv_file.file_format import BLOCK, FileFormatError, blocks, newline_of, quoted
from refresh_assets.published.csv_file.signature import other_format

__all__ = ["HEADER_LIMIT", "Cut", "FileFormatError", "Layout", "scan"]

HEADER_LIMIT = 1024 * 1024
CUT_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# What may stand beside the quotes of a field; nothing, where a quote is doubled.
_BESIDE_QUOTE = frozenset((b"", b",", b"\r", b"\n"))
_OUT_OF_PLACE = re.compile(rb'[^,\r\n"]"|"[^,\r\n"]')
_LONGEST_SEARCH = len(b"\r\n\\.\r\n")


class Cut(NamedTuple):
    """A byte of the file at which a row begins, and the number of rows before it."""

    offset: int
    rows: int


@dataclass(frozen=True)
class Layout:
    """How a sound file is laid out.

    `header` are the names as found, `data_offset` the byte at which the first row begins, `line_end` LF, CRLF or CR,
    `header_lines` the physical lines of the header, `rows` the records after it, `bytes` the size of the file and
    `sha256` the lower-case hex digest of exactly the bytes that were checked. `cuts`, 4 MiB or more apart, are where a
    large file can be cut.
    """

    header: tuple[str, ...]
    data_offset: int
    line_end: str
    header_lines: int
    rows: int
    bytes: int
    sha256: str
    cuts: tuple[Cut, ...] = ()


def scan(path: Path, name: str, *, block_size: int = BLOCK) -> Layout:
    """Check that a file is strict CSV and return its layout; `name` is what errors call it.

    Rows that are too short or too long are left to the server's COPY. Raises FileFormatError for the first fault, with
    its line, and OSError where the file cannot be read.
    """
    with path.open("rb") as stream:
        head = stream.read(HEADER_LIMIT + 1)
        header = _read_header(path, name, head)
        digest = hashlib.sha256(head[: header.end])
        rows = _Rows(header.line_end.encode(), header.end)
        stream.seek(header.end)
        sound = _check(stream, rows, digest, block_size)
    if not sound:
        raise _first_error(path, name, rows.start, header.line_end, block_size)
    return Layout(
        header=header.names,
        data_offset=header.end,
        line_end=header.line_end,
        header_lines=header.lines,
        rows=rows.count,
        bytes=rows.offset,
        sha256=digest.hexdigest(),
        # Behind the last row none begins.
        cuts=tuple(cut for cut in rows.cuts if cut.offset < rows.offset),
    )


def _check(stream: BinaryIO, rows: _Rows, digest: hashlib._Hash, block_size: int) -> bool:
    for block in blocks(stream, block_size):
        digest.update(block)
        if not rows.take(block):
            return False
    return rows.finish()


def _first_error(path: Path, name: str, row_start: int, line_end: str, block_size: int) -> FileFormatError:
    fault = find_fault(path, row_start, line_end, block_size)
    if fault is None:
        return FileFormatError(f"{name}: the file was changed while it was read; refresh once more")
    return fault_error(path, name, fault, line_end)


@dataclass(frozen=True)
class _Header:
    """`end` is the offset behind the header's line end, `lines` the physical lines it takes."""

    names: tuple[str, ...]
    end: int
    line_end: str
    lines: int


def _read_header(path: Path, name: str, head: bytes) -> _Header:
    """Read the header, whose line end is the file's, from the first bytes of the file."""
    start = len(_BOM) if head.startswith(_BOM) else 0
    other = other_format(head[start:])
    if other is not None:
        raise FileFormatError(f"{name}: line 1: {other}; it starts with {quoted(head[:40])}", 1)
    if len(head) == start:
        raise FileFormatError(f"{name}: the file is empty; line 1 must be the header", 1)
    walk = Walk(start, None, one_row=True)
    fault = walk.take(head[start:])
    # The limit may have cut a character, which then looks like a fault.
    reached = (walk.row_end or len(head)) if fault is None else fault.offset + 3
    if min(len(head), reached) > HEADER_LIMIT:
        text = f"the header is longer than {HEADER_LIMIT} bytes; is a quote left open in it?"
        raise FileFormatError(f"{name}: line 1: {text}", 1)
    if fault is None and walk.row_end is None:
        fault = walk.finish()
    line_end = (walk.line_end or b"\n").decode()
    if fault is not None:
        raise _in_header(fault_error(path, name, fault, line_end))
    end = len(head) if walk.row_end is None else walk.row_end
    record = head[start:end].decode().removesuffix(line_end)
    names = tuple(found or "" for found in split_fields(record))
    return _Header(names, end, line_end, 1 + record.count(newline_of(line_end).decode()))


def _in_header(error: FileFormatError) -> FileFormatError:
    return FileFormatError(f"{error} (in the header)", error.line)


class _Rows:
    """What is known of the rows up to a block's end: how many, and where the last one that began begins."""

    def __init__(self, line_end: bytes, offset: int) -> None:
        self.count = 0
        self.offset = offset
        self.start = offset
        self.cuts: list[Cut] = []
        self._last_cut = offset
        self._line_end = line_end
        # Faster than `in`, which steps through every byte.
        self._blank_line = re.compile(line_end * 2)
        self._inside = False
        # The end of what lay outside quotes, each quoted stretch being one quote character in it.
        self._tail = line_end

    def take(self, block: bytes) -> bool:
        """Take the next block in; False where something in it, or between it and the one before, is wrong."""
        if b"\0" in block or not _is_utf8(block):
            return False
        parts = block.split(b'"')
        pieces = [b"", *parts[1::2]] if self._inside else parts[::2]
        outside = b'"'.join(pieces)
        if not (_quotes_are_sound(pieces) and self._lines_are_sound(outside) and self._border_is_sound(outside)):
            return False
        self._tail = (self._tail + outside[-_LONGEST_SEARCH:])[-_LONGEST_SEARCH:]
        self._inside ^= len(parts) % 2 == 0
        self.offset += len(block)
        self._note_start(parts)
        if self.start >= self._last_cut + CUT_BYTES:
            self._last_cut = self.start
            self.cuts.append(Cut(self.start, self.count))
        return True

    def finish(self) -> bool:
        """Take the end of the file in; False where it comes too early."""
        self.count += not self._tail.endswith(self._line_end)
        return not self._inside and not self._tail.endswith(self._line_end + b"\\.")

    def _lines_are_sound(self, outside: bytes) -> bool:
        end = self._line_end
        ends = outside.count(end)
        self.count += ends
        if end == b"\r\n":
            one_kind = outside.count(b"\r") == ends == outside.count(b"\n")
        else:
            one_kind = (b"\r" if end == b"\n" else b"\n") not in outside
        return (
            one_kind
            and not self._blank_line.search(outside)
            and not (b"\\" in outside and end + b"\\." + end in outside)
        )

    def _border_is_sound(self, outside: bytes) -> bool:
        end = self._line_end
        border = self._tail + outside[:_LONGEST_SEARCH]
        return end + end not in border and end + b"\\." + end not in border and not _OUT_OF_PLACE.search(border)

    def _note_start(self, parts: list[bytes]) -> None:
        """Keep the last start of a row in the block, from where `fault` can read."""
        outside, position = not self._inside, self.offset
        for part in reversed(parts):
            position -= len(part)
            found = part.rfind(self._line_end) if outside else -1
            if found >= 0:
                self.start = position + found + len(self._line_end)
                return
            position -= 1
            outside = not outside


def _quotes_are_sound(pieces: list[bytes]) -> bool:
    if len(pieces) == 1:
        return True
    # Where all fields are quoted, what lies between them is nearly always the same.
    between = set(pieces[1:-1])
    edges = {pieces[0][-1:], pieces[-1][:1], *(piece[:1] for piece in between), *(piece[-1:] for piece in between)}
    return edges <= _BESIDE_QUOTE


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True

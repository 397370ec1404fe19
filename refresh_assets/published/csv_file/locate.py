"""Finds the rows of a published file that the server complained about: their lines and values.

Reads files that `dialect.scan` found sound, row by row as Postgres's COPY reads them, in the memory of the longest row.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from refresh_assets.published.csv_file.dialect import Layout
from refresh_assets.published.csv_file.fields import split_fields
from refresh_assets.published.csv_file.file_format import BLOCK, newline_of

Values = tuple[str | None, ...]
ROWS_PER_KEY = 5


@dataclass(frozen=True)
class Record:
    """A row of a file: its first and last physical line (header = 1) and its values, a bare empty one being None."""

    line: int
    end_line: int
    values: Values

    @property
    def place(self) -> str:
        """Return `line 3`, or `line 3 (the row ends on line 5)`."""
        ends = f" (the row ends on line {self.end_line})" if self.end_line != self.line else ""
        return f"line {self.line}{ends}"


def records(path: Path, layout: Layout) -> Iterator[Record]:
    """Read the rows behind the header in the order of the file. Raises OSError."""
    for row in _raw_rows(path, layout):
        yield _record(row, layout)


def first_records(path: Path, layout: Layout, size: int) -> list[Record]:
    """Return the rows that end within the first `size` bytes behind the header. Raises OSError."""
    with path.open("rb") as stream:
        stream.seek(layout.data_offset)
        head = stream.read(size)
    rows = list(_rows_of(io.BytesIO(head), layout))
    # The last one may be cut, where the file goes on.
    return [_record(row, layout) for row in (rows[:-1] if len(head) == size else rows)]


def record_at_copy_line(path: Path, layout: Layout, copy_line: int) -> Record | None:
    """Return the row that the server means by `COPY …, line N` after it was given the bytes from `data_offset` on.

    The server counts a line for each row and one for each newline byte of the file's kind in quotes: LF, or CR in files
    whose lines end in CRLF or CR. In the first row it does not know the kind yet and counts CR.
    """
    counted = 0
    for row in _raw_rows(path, layout):
        newline = b"\n" if layout.line_end == "\n" and counted else b"\r"
        counted += 1 + row.text.count(newline)
        if counted >= copy_line:
            return _record(row, layout)
    return None


def first_wrong_width(path: Path, layout: Layout) -> Record | None:
    """Return the first row whose number of fields is not the header's."""
    width = len(layout.header)
    return next((record for record in records(path, layout) if len(record.values) != width), None)


def width_problem(record: Record, header: Sequence[str]) -> str:
    """Say where a row is, how many fields it has instead of the header's, and which column it lacks."""
    count = len(record.values)
    fields = "1 field" if count == 1 else f"{count} fields"
    lacks = f" (column {header[count]} is missing)" if count < len(header) else ""
    return f"{record.place}: {fields} where the header has {len(header)}{lacks}"


def odd_row(path: Path, layout: Layout) -> str:
    """Say of the first row that can be no row what is odd about it: a comment, a line of blanks, empty fields alone."""
    for record in records(path, layout):
        if len(record.values) != len(layout.header):
            return width_problem(record, layout.header)
        if not any(record.values):
            return f"{record.place}: every field is empty"
    return ""


def records_with_keys(
    path: Path,
    layout: Layout,
    key_columns: Sequence[int],
    keys: Collection[Values],
    normalise: Callable[[Values], Hashable] = tuple,
) -> dict[Values, tuple[Record, ...]]:
    """Return for each key that is in the file the first five rows that hold it, in the order of the file.

    `key_columns` are positions in the row. `normalise` maps a key to what it is compared as, on both sides, since the
    server's text of a uuid and the file's may differ in letter case; a row's key at which it raises ValueError or
    ArithmeticError is taken for another one.
    """
    wanted = {normalise(key): key for key in keys}
    found: defaultdict[Values, list[Record]] = defaultdict(list)
    for row in _raw_rows(path, layout):
        values = split_fields(row.text.decode())
        if len(values) != len(layout.header):
            continue
        try:
            key = wanted.get(normalise(tuple(values[column] for column in key_columns)))
        except (ValueError, ArithmeticError):
            continue
        if key is not None and len(found[key]) < ROWS_PER_KEY:
            found[key].append(_record(row, layout))
    return {key: tuple(rows) for key, rows in found.items()}


@dataclass(frozen=True)
class _RawRow:
    line: int
    text: bytes


def _record(row: _RawRow, layout: Layout) -> Record:
    end_line = row.line + row.text.count(newline_of(layout.line_end))
    return Record(row.line, end_line, split_fields(row.text.decode()))


def _raw_rows(path: Path, layout: Layout) -> Iterator[_RawRow]:
    with path.open("rb") as stream:
        stream.seek(layout.data_offset)
        yield from _rows_of(stream, layout)


def _rows_of(stream: BinaryIO, layout: Layout) -> Iterator[_RawRow]:
    newline, line_end = newline_of(layout.line_end), layout.line_end.encode()
    line = first = layout.header_lines + 1
    parts: list[bytes] = []
    inside = False
    for text in _lines(stream, newline):
        parts.append(text)
        line += 1
        inside ^= text.count(b'"') % 2 == 1
        if not inside:
            yield _RawRow(first, b"".join(parts).removesuffix(line_end))
            parts, first = [], line


def _lines(stream: BinaryIO, newline: bytes) -> Iterator[bytes]:
    """Cut a stream behind each newline byte."""
    parts: list[bytes] = []
    while block := stream.read(BLOCK):
        first, *others = block.split(newline)
        parts.append(first)
        for text in others:
            yield b"".join(parts) + newline
            parts = [text]
    if rest := b"".join(parts):
        yield rest

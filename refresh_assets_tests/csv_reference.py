"""The CSV dialect once more, over a whole small file in memory and as plainly as it can be said; and random files.

It shares nothing with the product, so that the two can be compared.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
LINE_ENDS = (b"\n", b"\r\n", b"\r")


@dataclass(frozen=True)
class Sound:
    """A file's records, header first, as (first line, last line, values)."""

    records: list[tuple[int, int, tuple[str | None, ...]]]
    line_end: bytes
    data_offset: int


@dataclass(frozen=True)
class Faulty:
    line: int
    word: str


class _FaultError(Exception):
    def __init__(self, at: int, word: str, found: int | None = None) -> None:
        self.at, self.word = at, word
        self.found = at if found is None else found


def read(data: bytes) -> Sound | Faulty:
    start = len(BOM) if data.startswith(BOM) else 0
    if len(data) == start:
        return Faulty(1, "empty")
    parser = _Parser(data, start)
    faults = _bad_bytes(data, start)
    try:
        records = parser.records()
    except _FaultError as fault:
        faults.append((fault.found, fault.at, fault.word))
    if faults:
        _, at, word = min(faults)
        return Faulty(1 + data.count(parser.newline, 0, at), word)
    return Sound(records, parser.end or b"\n", parser.data_offset)


def _bad_bytes(data: bytes, start: int) -> list[tuple[int, int, str]]:
    faults = []
    nul = data.find(b"\0")
    if nul >= 0:
        faults.append((nul, nul, "NUL"))
    try:
        data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        faults.append((start + error.start, start + error.start, "UTF-8"))
    return faults


class _Parser:
    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.at = data, start
        self.end: bytes | None = None
        self.data_offset = len(data)

    @property
    def newline(self) -> bytes:
        return b"\r" if self.end == b"\r" else b"\n"

    def records(self) -> list[tuple[int, int, tuple[str | None, ...]]]:
        found = []
        while self.at < len(self.data):
            start = self.at
            values = self.record()
            found.append((start, self.at, values))
            self.line_end(start)
            if len(found) == 1:
                self.data_offset = self.at
        newline = self.newline
        return [
            (1 + self.data.count(newline, 0, start), 1 + self.data.count(newline, 0, end), values)
            for start, end, values in found
        ]

    def record(self) -> tuple[str | None, ...]:
        values = [self.field()]
        while self.peek() == b",":
            self.at += 1
            values.append(self.field())
        return tuple(values)

    def field(self) -> str | None:
        return self.quoted_field() if self.peek() == b'"' else self.bare_field()

    def bare_field(self) -> str | None:
        value = b""
        while self.peek() not in (b"", b",", b"\r", b"\n"):
            if self.peek() == b'"':
                raise _FaultError(self.at, "inside an unquoted")
            value += self.peek()
            self.at += 1
        return value.decode("utf-8", "replace") or None

    def quoted_field(self) -> str:
        opened = self.at
        value = b""
        self.at += 1
        while True:
            if self.peek() == b"":
                raise _FaultError(opened, "never closed", len(self.data))
            if self.peek() == b'"':
                self.at += 1
                if self.peek() != b'"':
                    break
            value += self.peek()
            self.at += 1
        if self.peek() not in (b"", b",", b"\r", b"\n"):
            raise _FaultError(self.at, "behind the closing quote")
        return value.decode("utf-8", "replace")

    def line_end(self, start: int) -> None:
        end = b"\r\n" if self.data[self.at : self.at + 2] == b"\r\n" else self.peek()
        if end:
            self.end = self.end or end
            if end != self.end:
                raise _FaultError(self.at, "of another kind")
            if start == self.at:
                raise _FaultError(self.at, "blank")
        if self.data[start : self.at] == b"\\.":
            raise _FaultError(start, "stop reading", self.at)
        self.at += len(end)

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]


_SOUP = [
    b"a",
    b",",
    b'"',
    b"\r",
    b"\n",
    b"\\",
    b".",
    "é".encode(),
    "🐟".encode(),
    b"\xc3",
    b"\0",
    BOM,
    b'""',
    b"\n\\.\n",
]
_VALUES = [
    b"a", b"", b"", b'""', b'"a,b"', b'"a""b"', b'""""', b'"\n"', b'"\r\n\r\n"', b'"\r"', b"\\.", b"\\", b'"\\."',
    b"b c", "é".encode(), "東🐟".encode(), b'"\n\\.\n"', b" ", BOM, b'"\n""\n"',
]  # fmt: skip


def soup(chance: random.Random) -> bytes:
    """Return bytes without any order, behind a header more often than not."""
    header = chance.choice([b"", BOM, b"a,b\n", b"a,b\r\n", b"a,b\r", BOM + b'"a\n",b\n'])
    return header + b"".join(chance.choices(_SOUP, k=chance.randint(0, 14)))


def nearly_sound(chance: random.Random) -> bytes:
    """Return a sound file with no, one or two small wounds."""
    end = chance.choice(LINE_ENDS)
    rows = [b"a,b"] + [b",".join(chance.choices(_VALUES, k=chance.randint(1, 4))) for _ in range(chance.randint(0, 6))]
    data = bytearray(chance.choice([b"", b"", BOM]) + end.join(rows) + chance.choice([b"", end]))
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.randint(0, 1)] = chance.choice([b"", *_SOUP, end])
    return bytes(data)

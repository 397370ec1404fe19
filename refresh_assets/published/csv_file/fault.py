"""The first fault of a CSV file, exactly: which byte, which line, what is wrong, what to do.

Exact and slow. `dialect.scan` finds out quickly that there is a fault; this then says which, from a row's start near
it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path

from refresh_assets.published.csv_file.file_format import BLOCK, FileFormatError, blocks, newline_of, quoted

_TOKEN = re.compile(rb'\r\n|[\r\n",\\.]|[^\r\n",\\.]+')
_QUOTED = re.compile(rb'[^"]*(?:""[^"]*)*')
_LINE_ENDS = {b"\n": "LF", b"\r\n": "CRLF", b"\r": "CR"}
_BEFORE, _AFTER = 30, 60
_OTHER_SEPARATORS = (b";", b"\t", b"|")
SEPARATOR_HINT = "; are the columns, in the header too, separated by something else than commas?"


class Kind(enum.Enum):
    """What can be wrong with the bytes of a file."""

    NUL = "a NUL byte in {found}; publish text without NUL bytes"
    ENCODING = "not UTF-8 at {found}; publish the file as UTF-8"
    STRAY = "a quote inside an unquoted field at {found}; quote the whole field and double the quotes in it"
    AFTER = "text behind the closing quote of a field{opened} at {found}; double every quote inside a quoted field"
    OPEN = "the quote at {found} opens a field and is never closed; close it, or quote the field and double the quote"
    BLANK = "a blank line; remove it"
    MARKER = "an unquoted line of only '\\.', where Postgres would stop reading; quote it or remove it"
    MIXED = "a line end of another kind ({got}) than the first one ({first}) at {found}; use one kind throughout"


class _State(enum.Enum):
    START = enum.auto()
    SLASH = enum.auto()
    DOT = enum.auto()
    FIELD = enum.auto()
    PLAIN = enum.auto()
    QUOTED = enum.auto()
    CLOSED = enum.auto()


_END = b"\n"
# What a token leads to in each state; other text leads to what stands under b"".
_STEPS: dict[_State, dict[bytes, _State | Kind]] = {
    _State.START: {b'"': _State.QUOTED, b",": _State.FIELD, _END: Kind.BLANK, b"\\": _State.SLASH, b"": _State.PLAIN},
    _State.SLASH: {b'"': Kind.STRAY, b",": _State.FIELD, _END: _State.START, b".": _State.DOT, b"": _State.PLAIN},
    _State.DOT: {b'"': Kind.STRAY, b",": _State.FIELD, _END: Kind.MARKER, b"": _State.PLAIN},
    _State.FIELD: {b'"': _State.QUOTED, b",": _State.FIELD, _END: _State.START, b"": _State.PLAIN},
    _State.PLAIN: {b'"': Kind.STRAY, b",": _State.FIELD, _END: _State.START, b"": _State.PLAIN},
    _State.CLOSED: {b'"': _State.QUOTED, b",": _State.FIELD, _END: _State.START, b"": Kind.AFTER},
}


@dataclass(frozen=True)
class Fault:
    """A fault at a byte of the file; `opened` is where the last quoted field was opened, `got` the wrong line end."""

    kind: Kind
    offset: int
    opened: int
    got: bytes = b""


class Walk:
    """Reads a file's bytes from a row's start on, in the order of `file_format.blocks`.

    `line_end` is None until the first line end decides. After the first row `row_end` is the offset behind it; with
    `one_row` nothing after that is looked at.
    """

    def __init__(self, offset: int, line_end: bytes | None, *, one_row: bool = False) -> None:
        self.offset = offset
        self.line_end = line_end
        self.row_end: int | None = None
        self._one_row = one_row
        self._state = _State.START
        self._opened = offset

    def take(self, block: bytes) -> Fault | None:
        """Read the next block and return the first fault in it."""
        fault = self._structure(block)
        end = len(block) if self.row_end is None or not self._one_row else self.row_end - self.offset
        bad = _bad_byte(block[:end])
        if bad is not None and (fault is None or self.offset + bad[1] <= fault.offset):
            fault = Fault(bad[0], self.offset + bad[1], self._opened)
        self.offset += len(block)
        return fault

    def finish(self) -> Fault | None:
        """Return the fault that only the end of the file shows."""
        if self._state is _State.QUOTED:
            return Fault(Kind.OPEN, self._opened, self._opened)
        if self._state is _State.DOT:
            return Fault(Kind.MARKER, self.offset - 2, self._opened)
        return None

    def _structure(self, block: bytes) -> Fault | None:
        at = 0
        while at < len(block):
            if self._state is _State.QUOTED:
                at = _match(_QUOTED, block, at).end()
                if at < len(block):
                    self._state = _State.CLOSED
                    at += 1
                continue
            token = _match(_TOKEN, block, at)
            fault = self._step(token.group(), self.offset + at)
            if fault is not None:
                return fault
            at = token.end()
            if self._state is _State.START and self.row_end is None:
                self.row_end = self.offset + at
                if self._one_row:
                    break
        return None

    def _step(self, token: bytes, offset: int) -> Fault | None:
        steps = _STEPS[self._state]
        if token in _LINE_ENDS:
            self.line_end = self.line_end or token
            if token != self.line_end:
                return Fault(Kind.MIXED, offset, self._opened, token)
            token = _END
        step = steps.get(token, steps[b""])
        if isinstance(step, Kind):
            return Fault(step, offset, self._opened)
        if step is _State.QUOTED and self._state is not _State.CLOSED:
            self._opened = offset
        self._state = step
        return None


def find_fault(path: Path, offset: int, line_end: str, size: int = BLOCK) -> Fault | None:
    """Return the first fault from `offset` on, which is a row's start, or None where the rest of the file is sound."""
    walk = Walk(offset, line_end.encode())
    with path.open("rb") as stream:
        stream.seek(offset)
        for block in blocks(stream, size):
            fault = walk.take(block)
            if fault is not None:
                return fault
    return walk.finish()


def fault_error(path: Path, name: str, fault: Fault, line_end: str) -> FileFormatError:
    """Put a fault into words for the published file `name`, with its line."""
    line = line_at(path, fault.offset, line_end)
    opened = line_at(path, fault.opened, line_end) if fault.kind is Kind.AFTER else line
    text = fault.kind.value.format(
        found=quoted(_excerpt(path, fault.offset)),
        opened=f" that was opened on line {opened}" if opened != line else "",
        got=_LINE_ENDS.get(fault.got),
        first=_LINE_ENDS.get(line_end.encode()),
    ) + (SEPARATOR_HINT if _is_separated_otherwise(path, fault) else "")
    return FileFormatError(f"{name}: line {line}: {text}", line)


def line_at(path: Path, offset: int, line_end: str) -> int:
    """Return the physical line (header = 1) on which the byte at `offset` stands."""
    newline = newline_of(line_end)
    line = 1
    with path.open("rb") as stream:
        while offset > 0 and (block := stream.read(min(BLOCK, offset))):
            line += block.count(newline)
            offset -= len(block)
    return line


def _match(pattern: re.Pattern[bytes], block: bytes, at: int) -> re.Match[bytes]:
    match = pattern.match(block, at)
    if match is None:
        raise AssertionError("every byte is in one of the pattern's alternatives")
    return match


def _bad_byte(block: bytes) -> tuple[Kind, int] | None:
    nul = block.find(b"\0")
    try:
        block.decode()
    except UnicodeDecodeError as error:
        if nul < 0 or error.start < nul:
            return Kind.ENCODING, error.start
    return (Kind.NUL, nul) if nul >= 0 else None


def _is_separated_otherwise(path: Path, fault: Fault) -> bool:
    """Tell whether a stray quote stands behind, or a closing one before, what others separate columns by."""
    places = {Kind.STRAY: fault.offset - 1, Kind.AFTER: fault.offset}
    if fault.kind not in places:
        return False
    with path.open("rb") as stream:
        stream.seek(places[fault.kind])
        return stream.read(1) in _OTHER_SEPARATORS


def _excerpt(path: Path, offset: int) -> bytes:
    """Return the bytes around an offset that are on the same line, behind a mark where its beginning is left out."""
    start = max(0, offset - _BEFORE)
    with path.open("rb") as stream:
        stream.seek(start)
        window = stream.read(offset - start + _AFTER)
    before, after = window[: offset - start], window[offset - start :]
    line = re.split(rb"[\r\n]", before)[-1]
    if start and len(line) == len(before):
        # The window may begin inside a character.
        line = "…".encode() + line.lstrip(bytes(range(0x80, 0xC0)))
    return line + re.split(rb"[\r\n]", after)[0]

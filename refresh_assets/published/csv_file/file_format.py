"""What is common to everything that reads a published CSV file: the error, the quoting of what was found, the blocks.

The dialect: UTF-8, comma, double quote, doubled quotes inside quoted fields; LF, CRLF or CR, one kind in a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from refresh_assets.errors import RefreshError

BLOCK = 256 * 1024
_SHOWN = 80


class FileFormatError(RefreshError):
    """A published file is not the CSV that was promised; `line` is physical, header = 1, where there is one."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


def quoted(found: str | bytes, limit: int = _SHOWN) -> str:
    """Return text or raw bytes of a file for an error: quoted, on one line, printable, at most `limit` characters."""
    text = found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found
    # Escaping makes text longer, never shorter: what is beyond the limit cannot be shown.
    visible = "".join(_visible(char) for char in text[: limit + 1])
    return f"'{visible}'" if len(visible) <= limit else f"'{visible[: limit - 1]}…'"


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()


def newline_of(line_end: str) -> bytes:
    """Return the byte that ends a physical line, inside quotes too: LF, and CR only where lines end in CR alone."""
    return b"\r" if line_end == "\r" else b"\n"


def blocks(stream: BinaryIO, size: int = BLOCK) -> Iterator[bytes]:
    """Cut a stream into blocks of about `size` bytes that end neither inside a UTF-8 character nor between CR and LF.

    Only the last block may: that is how the file ends.
    """
    held = b""
    while data := stream.read(size):
        block = held + data
        cut = len(block) - _open_end(block)
        held = block[cut:]
        if cut:
            yield block[:cut]
    if held:
        yield held


def _open_end(block: bytes) -> int:
    """Count the bytes at a block's end (0 to 3) whose meaning depends on the next byte."""
    if block[-1:] == b"\r":
        return 1
    for back, byte in enumerate(block[:-4:-1], start=1):
        if byte < 0x80:  # noqa: PLR2004
            return 0
        if byte >= 0xC0:  # noqa: PLR2004
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)  # noqa: PLR2004
            return back if back < length else 0
    return 0

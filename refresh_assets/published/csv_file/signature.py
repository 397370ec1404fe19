"""Recognises by its first bytes what was published in a CSV file's place."""

from __future__ import annotations

_UTF16 = "the file is {}, not UTF-8 (encoding); publish it as UTF-8"
_MARKS = (
    # UTF-32's little-endian mark begins with UTF-16's.
    (b"\xff\xfe\0\0", _UTF16.format("UTF-32")),
    (b"\0\0\xfe\xff", _UTF16.format("UTF-32")),
    (b"\xff\xfe", _UTF16.format("UTF-16")),
    (b"\xfe\xff", _UTF16.format("UTF-16")),
    (b"\x1f\x8b", "the file looks like gzip, not CSV; publish it uncompressed"),
    (b"PK\x03\x04", "the file looks like a zip archive or a workbook, not CSV; publish the text itself"),
    (b"\x28\xb5\x2f\xfd", "the file looks like zstd, not CSV; publish it uncompressed"),
    (b"\xfd7zXZ\0", "the file looks like xz, not CSV; publish it uncompressed"),
    (b"BZh", "the file looks like bzip2, not CSV; publish it uncompressed"),
)
_MARKUP = (b"<!doctype html", b"<html", b"<?xml")
# Which of the first four bytes are NUL in ASCII text of these encodings without a mark.
_NULS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "UTF-16",
    (True, False, True, False): "UTF-16",
    (False, True, True, True): "UTF-32",
    (True, True, True, False): "UTF-32",
}


def other_format(head: bytes) -> str | None:
    """Say what the first bytes of a file show it to be and what to do, or None where it may be CSV."""
    for mark, text in _MARKS:
        if head.startswith(mark):
            return text
    start = head[:1024].lstrip().lower()
    if start.startswith(_MARKUP):
        return "the file looks like an HTML or XML page, not CSV; look at what the address serves"
    encoding = _NULS.get(tuple(byte == 0 for byte in head[:4]))
    return _UTF16.format(encoding) if encoding else None

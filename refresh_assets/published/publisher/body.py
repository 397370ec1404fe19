"""Undoing a Content-Encoding, strictly: a stream that ends too early is an error, not a shorter file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_BLOCK = 1 << 18
_PACKINGS = {"gzip", "x-gzip", "deflate", "br", "zstd", "dcb", "dcz", "compress", "x-compress", "xz", "bzip2"}
_GZIP = 16 + zlib.MAX_WBITS


class BodyError(Exception):
    """The body is not what its headers say; the text goes behind an address."""


class CutShortError(BodyError):
    """The body ended before its end: another attempt may bring all of it."""


class Plain:
    """A body as it was sent."""

    def feed(self, block: bytes) -> Iterator[bytes]:
        yield block

    def end(self) -> None:
        """Nothing to check: the length is held against its header where it is read."""


class Gzip:
    """A gzip body of one or more members, given out in blocks of bounded size however well it was packed."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False
        self._over = False

    def feed(self, block: bytes) -> Iterator[bytes]:
        try:
            while block:
                if self._member.eof:
                    block = self._next_member(block)
                    continue
                self._begun = True
                yield self._member.decompress(block, _BLOCK)
                block = self._member.unconsumed_tail or self._member.unused_data
        except zlib.error:
            raise BodyError("the body is not the gzip data that Content-Encoding says") from None

    def _next_member(self, block: bytes) -> bytes:
        # Zeros may pad what comes after the last member.
        rest = block.lstrip(b"\0")
        if rest:
            self._member = zlib.decompressobj(_GZIP)
        return rest

    def end(self) -> None:
        """Raise CutShortError unless the last member is complete."""
        if self._begun and not self._member.eof:
            raise CutShortError("the gzip body was cut short")


def decoder(encoding: str) -> Plain | Gzip:
    """Return what undoes a Content-Encoding. Raises BodyError for one that was not asked for.

    What is no packing at all (`utf-8`, `aws-chunked` are seen) is passed over: the digest decides.
    """
    packed = [word for word in (part.strip().lower() for part in encoding.split(",")) if word in _PACKINGS]
    if not packed:
        return Plain()
    if packed in (["gzip"], ["x-gzip"]):
        return Gzip()
    raise BodyError(f"Content-Encoding is {', '.join(packed[:5])}; only gzip was asked for")

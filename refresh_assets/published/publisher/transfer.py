"""What every way of fetching shares: the error, the one deadline, and where the bytes go."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from refresh_assets.errors import RefreshError

Progress = Callable[[int, "int | None"], None]
"""Called with the bytes that have come and the bytes announced, if they were."""


class FetchError(RefreshError):
    """A published file did not come; the text names its address, without credentials."""


class GoneError(FetchError):
    """There is no file at the address."""


class Sink(Protocol):
    """Takes one body; `size` is how many bytes of it have come."""

    size: int

    def announce(self, size: int) -> None:
        """Refuse a size that is too large. Raises RefreshError."""

    def write(self, block: bytes) -> None:
        """Take the next block. Raises RefreshError where it is too much or cannot be kept."""

    def restart(self) -> None:
        """Forget what came: the body is about to be sent from its beginning again."""


@dataclass(frozen=True)
class Deadline:
    """The end of the time that one file may take with all its attempts; `seconds` is that time in full."""

    seconds: float
    _end: float = field(repr=False)

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, 0 or more."""
        return max(0.0, self._end - time.monotonic())

    def missed(self, address: str, size: int, last: str | None = None) -> FetchError:
        """Return the error of a body that was not complete in time; `last` says why the attempt before failed."""
        return FetchError(
            f"time-out: {address} was not complete after {self.seconds:g} s, {size} bytes came"
            + (f" (the attempt before: {last})" if last else "")
            + "; REFRESH_HTTP_TIMEOUT sets the seconds for one file"
        )


class Memory:
    """A sink for a small body."""

    def __init__(self, what: str, max_bytes: int) -> None:
        self._what = what
        self._max_bytes = max_bytes
        self._blocks: list[bytes] = []
        self.size = 0

    @property
    def body(self) -> bytes:
        return b"".join(self._blocks)

    def announce(self, size: int) -> None:
        if size > self._max_bytes:
            raise FetchError(f"{self._what} has {size} bytes or more; at most {self._max_bytes} are read")

    def write(self, block: bytes) -> None:
        self.announce(self.size + len(block))
        self._blocks.append(block)
        self.size += len(block)

    def restart(self) -> None:
        self._blocks.clear()
        self.size = 0

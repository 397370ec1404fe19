"""Lines that tell a waiting person what is being done, and for how long."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVERY = 5.0


@contextmanager
def progress(echo: Callable[[str], None], what: str, every: float = EVERY) -> Iterator[None]:
    """Say what begins, and every few seconds that it still goes on."""
    done = threading.Event()
    started = time.monotonic()

    def tick() -> None:
        while not done.wait(every):
            echo(f"  … {what}: {time.monotonic() - started:.0f} s")

    echo(f"{what} …")
    thread = threading.Thread(target=tick, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

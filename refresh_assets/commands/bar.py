"""A bar that shows on a terminal how far a transfer or load has come."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

# Files that are done in a moment need no bar.
LEAST_BYTES = 1_000_000


@contextlib.contextmanager
def bar() -> Iterator[None]:
    """Show a bar on standard error for what goes on meanwhile, where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from refresh_assets.published.progress import watching

    shown = _Bars()
    with watching(shown.update):
        try:
            yield
        finally:
            shown.end()


class _Bars:
    """One bar after the other, one for each thing that is done."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: ProgressBar[int] | None = None

    def update(self, what: str, done: int, all_bytes: int | None) -> None:
        if all_bytes is None or all_bytes < LEAST_BYTES:
            return
        if what != self._what:
            self.end()
            self._what = what
            self._bar = click.progressbar(length=all_bytes, label=what, file=sys.stderr, show_pos=False)
        if self._bar is not None:
            self._bar.update(done - self._bar.pos)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.render_finish()
            self._bar = None

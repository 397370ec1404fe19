"""Tables in Markdown, for the pages of the Dagster UI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

CELL = 80
IN_PLACE = 1000
"""The UI shows Markdown shorter than this in place, and a longer one behind a button."""

_MARKS = frozenset("\\`*_{}[]<>#|~!")


def table(header: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Return a table; every value is taken literally, None is written as NULL."""
    lines = [[cell(name) for name in header], ["---"] * len(header), *([cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(value: str | None) -> str:
    """Return a value for a table: on one line, cut after 80 characters, nothing of it taken for markup."""
    if value is None:
        return "NULL"
    text = value if len(value) <= CELL else value[:CELL] + "…"
    text = "".join(f"\\{c}" if c in _MARKS else " " if c in "\r\n\t" else c for c in text)
    return text or '""'


def in_place(write: Callable[[int], str], sizes: Sequence[int], length: int = IN_PLACE) -> str:
    """Return what `write` gives for the first of the sizes with which it is short enough; else that for the last."""
    return next((text for text in map(write, sizes) if len(text) < length), None) or write(sizes[-1])

"""A file cut into chunks, each with the part of the table where its rows must be."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from refresh_assets.published.csv_file.dialect import Cut, Layout
from refresh_assets.published.table.parts import PAGE_BYTES, Pages, count_parts, spans

# What a row takes in a table beside its values, which take about what they take in the file.
ROW_BYTES = 28


@dataclass(frozen=True)
class Chunk:
    """A part of a file, up to the byte `end`, None for the file's end; and the part of the table beside it."""

    end: int | None
    pages: Pages


def table_bytes(layout: Layout) -> int:
    """Estimate what a file's rows take in a table."""
    return _bytes_before(Cut(layout.bytes, layout.rows), layout)


def is_one_part(layout: Layout) -> bool:
    """Tell whether a file's rows take no more than one part of a table."""
    return count_parts(table_bytes(layout) // PAGE_BYTES) == 1


def chunks_of(layout: Layout, pages: int) -> list[Chunk]:
    """Return a file in chunks, each with the pages where a table of `pages` pages in the file's order has its rows."""
    sizes = [*(_bytes_before(cut, layout) for cut in layout.cuts), table_bytes(layout)]
    parts = count_parts(max(pages, sizes[-1] // PAGE_BYTES))
    places = [bisect_right(sizes, sizes[-1] * part // parts) for part in range(1, parts)]
    cuts = list(dict.fromkeys(place - 1 for place in places if place))
    bounds = [0, *(pages * sizes[place] // sizes[-1] for place in cuts)]
    ends = [*(layout.cuts[place].offset for place in cuts), None]
    return [Chunk(until, span) for until, span in zip(ends, spans(bounds), strict=True)]


def _bytes_before(cut: Cut, layout: Layout) -> int:
    return cut.offset - layout.data_offset + ROW_BYTES * cut.rows

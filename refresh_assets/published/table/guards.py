"""The guard against loading far fewer rows than were there."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from refresh_assets.errors import RefreshError
from refresh_assets.published.table.keep import Kept
from refresh_assets.published.table.load import FilterCount, Load

VALUES_SHOWN = 10
# With one of these changed, fewer rows are our own doing.
_OURS = {"config", "transform"}


class ShrinkRefusedError(RefreshError):
    """A load would leave too few rows; the text has both numbers and the values seen in the filter column."""


def check_shrink(load: Load, kept: Kept, rows_before: int, changed: Sequence[str], staged_before: int | None) -> None:
    """Refuse zero rows, or fewer than the declared share of what was there. Raises ShrinkRefusedError.

    Where the filter or the transform changed, the staged rows are compared with those of the last load, if known.
    """
    # As it is written: 0.55 of 100 is 55, which the nearest binary number is not.
    limit, share = Fraction(str(load.table.shrink_limit)), f"{load.table.shrink_limit:g}"
    if kept.rows == 0:
        raise ShrinkRefusedError(
            f"refused to load 0 rows over {rows_before}: of {load.rows} published rows none is kept"
            + _advice(load, kept.filter_counts)
        )
    if _OURS.isdisjoint(changed):
        if kept.rows < limit * rows_before:
            raise ShrinkRefusedError(
                f"refused to load {kept.rows} rows over {rows_before}: fewer than the declared share of {share}"
                + _advice(load, kept.filter_counts)
            )
    elif staged_before is not None and load.rows < limit * staged_before:
        raise ShrinkRefusedError(
            f"refused to load: {load.rows} rows are published where the last load had {staged_before}: "
            f"fewer than the declared share of {share}" + _advice(load, kept.filter_counts)
        )


def _advice(load: Load, counts: Sequence[FilterCount]) -> str:
    advice = "; nothing was changed. If this is right, run with --accept-shrink (accept_shrink in the launchpad)"
    if load.table.filter is None:
        return advice
    shown = ", ".join(f"{_value(count)} in {count.rows} rows" for count in counts[:VALUES_SHOWN])
    if len(counts) > VALUES_SHOWN:
        shown += f" and {len(counts) - VALUES_SHOWN} other values"
    allowed = ", ".join(repr(value) for value in load.allowed or ())
    return f"; column {load.table.filter.column!r} has {shown or 'no value'}, kept are {allowed}{advice}"


def _value(count: FilterCount) -> str:
    return "NULL" if count.value is None else repr(count.value[:80])

"""What goes into a replace and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from refresh_assets.published.csv_file.dialect import Layout
from refresh_assets.published.csv_file.header import match_header
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.fence import Guard
from refresh_assets.published.table.job_key import digest, parts_of

Outcome = Literal["loaded", "unchanged", "locked"]
Row = tuple[str | None, ...]


def header_of(table: Table, layout: Layout) -> tuple[str, ...]:
    """Return a table's declared columns in the order of a file. Raises FileFormatError where its header has others."""
    return match_header(layout.header, [column.name for column in table.published], table.file)


@dataclass(frozen=True)
class Load:
    """One file to be loaded into one table.

    `allowed` holds the values that the table's filter keeps, None without a filter. `rows` is the manifest's count.
    `instead_of` is the sha256 of the published file in whose place this earlier one is loaded by wish.
    `asked_at` is when the publisher was asked which file it publishes, None where it was not.
    `guard` decides at the transaction's end whether it may commit.
    """

    table: Table
    schema: str
    path: Path
    layout: Layout
    sha256: str
    rows: int
    allowed: tuple[str, ...] | None = None
    accept_shrink: bool = False
    run_id: str | None = None
    instead_of: str | None = None
    asked_at: datetime | None = None
    guard: Guard | None = None

    @property
    def header(self) -> tuple[str, ...]:
        """The declared columns in the order of the file. Raises RefreshError where its header has others."""
        return header_of(self.table, self.layout)

    @property
    def parts(self) -> dict[str, Any]:
        return parts_of(self.table, self.sha256, self.allowed)

    @property
    def job_key(self) -> str:
        return digest(self.parts)


@dataclass(frozen=True)
class FilterCount:
    """How many staged rows have a value of the filter column, trimmed (None: NULL), and whether they are kept."""

    value: str | None
    rows: int
    kept: bool


@dataclass(frozen=True)
class Samples:
    """Up to ten rows of each kind as text, in the order of the declared columns; changed ones as (old, new)."""

    added: Sequence[Row] = ()
    changed: Sequence[tuple[Row, Row]] = ()
    removed: Sequence[Row] = ()


@dataclass(frozen=True)
class Result:
    """What a run did to a table. Row counts are None where this run did not learn them.

    `load_id`, `loaded_at` and `loaded_by` (a run) are those of the load that the table holds now, `earlier` tells that
    it is an earlier file's, loaded by wish. `last_changes` are the rows that load added, changed and removed, where it
    is not this run's. `phases` has seconds by phase: compare, stage, apply.
    """

    outcome: Outcome
    job_key: str
    parts: Mapping[str, Any]
    rows: int | None = None
    rows_staged: int | None = None
    added: int = 0
    changed: int = 0
    removed: int = 0
    first_load: bool = False
    changed_parts: tuple[str, ...] = ()
    # Why the table no longer held what the last load recorded, None where it did.
    drift: str | None = None
    # Which version numbers were left alone although what they stand for was changed.
    unbumped: tuple[str, ...] = ()
    earlier: bool = False
    load_id: int | None = None
    loaded_at: datetime | None = None
    loaded_by: str | None = None
    last_changes: tuple[int, int, int] | None = None
    filter_counts: Sequence[FilterCount] = ()
    samples: Samples = Samples()
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The sentence for a log line; monitoring greps for these words."""
        if self.outcome == "locked":
            return "another refresh holds the lock: skipped"
        if self.outcome == "unchanged":
            return "nothing changed: skipped"
        return f"{self._reason}: loaded {self.rows} rows"

    @property
    def _reason(self) -> str:
        if self.earlier:
            return "earlier file by wish"
        if self.first_load:
            return "first load"
        if self.changed_parts:
            return " and ".join(self.changed_parts) + " changed"
        return "table changed behind the last load"

"""What became of a table, as a command prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from refresh_assets.errors import RefreshError
from refresh_assets.secrets import masked

LONGEST_LINE = 4000


@dataclass(frozen=True)
class TableReport:
    """One table of a run, as `refresh-assets run --json` prints it; counts are None where they are not known."""

    table: str
    outcome: str
    rows_staged: int | None = None
    rows: int | None = None
    added: int | None = None
    changed: int | None = None
    removed: int | None = None
    changed_parts: list[str] = field(default_factory=list)
    job_key: str | None = None
    run_id: str | None = None
    error: str | None = None
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def line(self) -> str:
        """The message for a log line."""
        return f"failed: {self.error}" if self.failed else self.message

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        del values["message"]
        return values


def failed_reports(tables: Sequence[str], error: BaseException) -> list[TableReport]:
    """Return a report for each table where no run could be started."""
    return [TableReport(table, "failed", error=reason(error)) for table in tables]


def reason(error: BaseException) -> str:
    """Return an exception's text on one line, without secrets, and that of what caused it where it is not ours."""
    texts = [masked(error)]
    if not isinstance(error, RefreshError) and error.__cause__ is not None:
        texts.append(masked(error.__cause__))
    return one_line("; caused by ".join(dict.fromkeys(texts)))


def one_line(text: str) -> str:
    """Return a text on one line, the end of a very long one left out."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"

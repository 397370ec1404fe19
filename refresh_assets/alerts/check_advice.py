"""What to do about a check that failed in a run that succeeded, by the name of the check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FailedCheck(NamedTuple):
    """A failed check: its name, the table it is on (None: another asset), and whether its run loaded that table."""

    name: str
    table: str | None
    loaded: bool


_REPAIRED = (
    "Nothing has to be loaded: the run made the table equal to what is published. Find out who wrote to it, and take "
    "the right away from them (REVOKE), or it will be changed again."
)
_AGAIN = "Run `refresh-assets run --table {table}`: it loads the table anew."
_ADVICE = {
    "versions": "Raise the version number in the table's defs.yaml: the mail comes with every refresh until then.",
    "key_unique": "Remove the repeated rows or give the table a primary key, then refresh it.",
}
_OTHER = "Open the checks on the page of the asset; they are evaluated again when it is materialized."


def what_failed(checks: Sequence[FailedCheck]) -> str:
    """Say in a sentence what the failed checks mean for the tables."""
    if checks and all(check.name == "drift" and check.loaded for check in checks):
        return (
            "Somebody had changed the rows behind the last load; this run found that and loaded what is published again"
        )
    return "The run succeeded and left no error, but a check of what it left failed"


def advice_on(checks: Sequence[FailedCheck]) -> str:
    """Return what to do, each advice once."""
    return " ".join(dict.fromkeys(map(_advice, checks)))


def _advice(check: FailedCheck) -> str:
    if check.table is None:
        return _OTHER
    if check.name == "drift" and check.loaded:
        return _REPAIRED
    return _ADVICE.get(check.name) or _AGAIN.format(table=check.table)

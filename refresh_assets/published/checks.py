"""The checks on a published file and on a table, evaluated with each materialization. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import dagster as dg

from refresh_assets.postgres.connect import Connection
from refresh_assets.published.csv_file.file_format import FileFormatError
from refresh_assets.published.csv_file.locate import odd_row
from refresh_assets.published.files import PublishedFile
from refresh_assets.published.io_managers import Refresh
from refresh_assets.published.story import rows_by_value
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.inspect import Inspection, inspect
from refresh_assets.published.table.load import Load, Result, header_of


class Check(NamedTuple):
    """A check's name, what it promises, what to do where it fails, and whether that stops what is downstream."""

    name: str
    promise: str
    advice: str
    blocking: bool = False

    @property
    def description(self) -> str:
        return f"{self.promise} If it fails: {self.advice}"


class Verdict(NamedTuple):
    """What a check found."""

    passed: bool
    description: str
    metadata: dict[str, Any]
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR

    def result(self, asset: dg.AssetKey, name: str) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(
            passed=self.passed,
            asset_key=asset,
            check_name=name,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
        )


FILE_CHECKS = (
    Check(
        "row_count",
        "The file has as many rows as the manifest says.",
        "the table is left as it was; the publisher must mend the manifest or the file.",
        blocking=True,
    ),
    Check(
        "sha256",
        "The bytes are those whose sha256 the manifest has.",
        "the file was changed on this machine; materialize it again.",
    ),
)
TABLE_CHECKS = (
    Check(
        "row_count",
        "The table holds as many rows as its last load left.",
        "somebody writes the table at this moment; materialize it again, and find out who.",
    ),
    Check(
        "key_unique",
        "No two rows have the same key.",
        "somebody else wrote rows and the table has no unique index on its key; add one.",
    ),
    Check(
        "rows_accounted_for",
        "Every published row was either kept or left out by the filter.",
        "this is a fault of the refresh; tell who maintains it.",
    ),
    Check(
        "drift",
        "Nobody changed the table's rows behind the last load.",
        "the rows were loaded again already; find out who wrote the table, and take the right away.",
    ),
    Check(
        "versions",
        "The transform and the columns are those that their version numbers stand for.",
        "raise the number in the declaration, so that every job loads the table anew.",
    ),
    Check(
        "verified",
        "This run compared the table with what is published, and did not meet another refresh.",
        "look at the other run; the next one verifies the table again.",
    ),
    Check(
        "as_published",
        "The table is made from the file that is published now, not from an earlier one by wish.",
        "nothing is wrong while that is wished for; `refresh-assets reload TABLE published` ends it.",
    ),
)


def check_specs(asset: dg.AssetKey, checks: Sequence[Check]) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(check.name, asset=asset, description=check.description, blocking=check.blocking)
        for check in checks
    ]


def file_results(asset: dg.AssetKey, file: PublishedFile, table: Table) -> Iterator[dg.AssetCheckResult]:
    """Evaluate the checks on a file that was fetched for a table."""
    counted = file.layout.rows
    agrees = counted == file.rows
    yield Verdict(
        agrees,
        f"{counted:,} rows, as the manifest says"
        if agrees
        else f"staged {counted} rows; the manifest says {file.rows}{_cause(file, table)}",
        {"rows": counted, "rows_in_manifest": file.rows},
    ).result(asset, "row_count")
    yield Verdict(
        file.layout.sha256 == file.sha256,
        f"{file.bytes:,} bytes hashed again as they were checked",
        {"sha256": file.layout.sha256, "sha256_in_manifest": file.sha256, "bytes": file.bytes},
    ).result(asset, "sha256")


def _cause(file: PublishedFile, table: Table) -> str:
    """Name what may explain a wrong number of rows: a row that is none, or a header that is none."""
    try:
        header_of(table, file.layout)
    except FileFormatError as error:
        return f"; {error}"
    row = odd_row(file.path, file.layout)
    return f"; {row}" if row else ""


def table_results(conn: Connection, asset: dg.AssetKey, refresh: Refresh) -> list[dg.AssetCheckResult]:
    """Evaluate the checks on a table after a refresh, in one snapshot of the database."""
    if refresh.result is None:
        raise AssertionError("the IO manager reports what it did before the checks run")
    result, settings = refresh.result, refresh.settings
    seen = inspect(conn, refresh.load, lock_seconds=settings.lock_timeout, statement_seconds=settings.statement_timeout)
    verdicts = {
        "row_count": _row_count(seen),
        "key_unique": _key_unique(seen),
        "rows_accounted_for": _accounted_for(seen, refresh.load, result),
        "drift": _drift(seen, refresh.load, result),
        "versions": _versions(seen, refresh.load, result),
        "verified": _verified(refresh.load, result),
        "as_published": _as_published(refresh.load),
    }
    return [verdict.result(asset, name) for name, verdict in verdicts.items()]


def _row_count(seen: Inspection) -> Verdict:
    if seen.recorded_rows is None:
        return _passed(f"{seen.rows:,} rows; the last load was another job's and left no count", rows=seen.rows)
    return Verdict(
        seen.rows == seen.recorded_rows,
        f"{seen.rows:,} rows; the last load left {seen.recorded_rows:,}",
        {"rows": seen.rows, "rows_of_last_load": seen.recorded_rows},
    )


def _key_unique(seen: Inspection) -> Verdict:
    how = f"guaranteed by the index {seen.unique_index}" if seen.unique_index else "counted"
    return Verdict(
        seen.repeated_keys == 0,
        f"{seen.repeated_keys:,} keys stand in more than one row ({how})",
        {"repeated_keys": seen.repeated_keys, "how": how},
    )


def _accounted_for(seen: Inspection, load: Load, result: Result) -> Verdict:
    if seen.recorded_rows is None or seen.recorded_staged is None:
        return _passed("the last load was another job's and left no counts")
    left_out = seen.recorded_staged - seen.recorded_rows
    counts = result.filter_counts
    agrees = left_out == sum(count.rows for count in counts if not count.kept) if counts else left_out >= 0
    return Verdict(
        agrees and (load.table.filter is not None or left_out == 0),
        f"{seen.recorded_staged:,} published = {seen.recorded_rows:,} kept + {left_out:,} left out by the filter",
        {
            "rows_staged": seen.recorded_staged,
            "rows_kept": seen.recorded_rows,
            "rows_left_out": left_out,
            **({"rows_by_value": rows_by_value(load.table, counts)} if counts else {}),
        },
    )


def _drift(seen: Inspection, load: Load, result: Result) -> Verdict:
    loaded = result.outcome == "loaded"
    found = result.drift if loaded else seen.drift
    if found is None:
        return _passed("the rows are those of the last load")
    told: dict[str, Any] = {"found": found}
    repaired = ""
    if loaded:
        told |= {"added": result.added, "changed": result.changed, "removed": result.removed}
        repaired = (
            f"; they were loaded again: {result.added:,} added, {result.changed:,} changed, {result.removed:,} removed"
        )
    return Verdict(False, f"{load.schema}.{load.table.name}: {found}{repaired}", told)  # noqa: FBT003


def _versions(seen: Inspection, load: Load, result: Result) -> Verdict:
    unbumped = seen.unbumped if result.outcome == "locked" else result.unbumped
    table = load.table
    if not unbumped:
        return _passed(f"transform {table.transform_version}, schema {table.schema_version}")
    return Verdict(
        False,  # noqa: FBT003
        f"table {table.name}: {' and '.join(unbumped)} was not raised although what it stands for "
        "differs from the last load; raise it in the defs.yaml, so that every job loads the table anew",
        {"not_raised": ", ".join(unbumped)},
    )


def _verified(load: Load, result: Result) -> Verdict:
    if result.outcome != "locked":
        return _passed(f"compared with the published file{_as_of(load)}: {result.outcome}", outcome=result.outcome)
    return Verdict(
        False,  # noqa: FBT003
        "another refresh held the lock: this run changed nothing and verified nothing",
        {"outcome": "locked"},
        dg.AssetCheckSeverity.WARN,
    )


def _as_published(load: Load) -> Verdict:
    if load.instead_of is None:
        return _passed(f"made from the published {load.table.file}{_as_of(load)}", sha256=load.sha256)
    return Verdict(
        False,  # noqa: FBT003
        f"made from an earlier {load.table.file} by wish; it stays until another file is published",
        {"sha256": load.sha256, "sha256_published": load.instead_of},
        dg.AssetCheckSeverity.WARN,
    )


def _as_of(load: Load) -> str:
    """Say when the publisher was asked: a run of the table alone compares it with the file that was fetched last."""
    return f" as of {load.asked_at:%Y-%m-%d %H:%M} UTC" if load.asked_at else ""


def _passed(description: str, **metadata: Any) -> Verdict:
    return Verdict(True, description, metadata)  # noqa: FBT003

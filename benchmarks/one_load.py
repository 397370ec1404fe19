"""One load in a process of its own, so that its peak memory is its own; prints what it took as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import classic
from generate import ALLOWED
from psycopg import sql

from refresh_assets.postgres.connect import connect
from refresh_assets.published.csv_file.dialect import scan
from refresh_assets.published.table.declaration import Column, RowFilter, Table
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.replace import replace
from refresh_assets.settings import read_postgres

DATASETS = Table(
    name="datasets",
    file="datasets.csv",
    key=("dataset_key",),
    columns=(
        Column("dataset_key", "uuid", nullable=False),
        Column("title", "text", nullable=False),
        Column("publisher", "text", nullable=False),
        Column("doi", "text"),
        Column("license", "text", nullable=False),
    ),
    filter=RowFilter("license", setting="REFRESH_LICENSES"),
)


def main() -> None:
    """Connect, load from the first byte of the file to the commit, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=("idle", "classic", "ours"))
    parser.add_argument("--schema", required=True)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--sha256")
    parser.add_argument("--rows", type=int)
    arguments = parser.parse_args()
    told: dict[str, Any] = {}
    with connect(read_postgres(), "benchmark") as conn:
        start = time.monotonic()
        if arguments.way == "classic":
            target = sql.Identifier(arguments.schema, DATASETS.name)
            classic.load(conn, arguments.file, arguments.sha256, arguments.rows, target)
        elif arguments.way == "ours":
            layout = scan(arguments.file, DATASETS.file)
            told["phases"] = {"scan": time.monotonic() - start}
            result = replace(
                conn,
                Load(DATASETS, arguments.schema, arguments.file, layout, arguments.sha256, arguments.rows, ALLOWED),
            )
            told["phases"].update(result.phases)
            told.update(outcome=result.outcome, added=result.added, changed=result.changed, removed=result.removed)
        told["seconds"] = time.monotonic() - start
    print(json.dumps({**told, "peak_bytes": peak_bytes()}))


def peak_bytes() -> int:
    """Return the most memory this process ever had resident.

    Linux counts what the parent had before exec in ru_maxrss, so there it is read elsewhere.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()

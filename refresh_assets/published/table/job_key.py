"""The job key: one sha256 over all that decides a table's content.

The canonical form is that of the cron job which teams run beside this project, so that each sees what the other
loaded: JSON with sorted keys, separators `,` and `:`, and Python's ASCII escaping.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from refresh_assets.published.table.declaration import Table

Parts = Mapping[str, Any]

# The one filter that the cron job knows, under a name of its own in its configuration.
CRON_JOBS_FILTER = ("REFRESH_LICENSES", "license")


def canonical(value: Any) -> str:
    """Return the JSON text that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON, as lower-case hex."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def parts_of(table: Table, sha256: str, allowed: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the parts of the job key: input, transform, config, schema."""
    return {
        "input": sha256,
        "transform": table.transform_version,
        "config": {"file": table.file, **_filter_config(table, allowed)},
        "schema": table.schema_version,
    }


def changed_parts(before: Parts, now: Parts) -> tuple[str, ...]:
    """Return the names of the parts that differ, alphabetical."""
    return tuple(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


def transform_fingerprint(table: Table) -> str:
    """Return a digest of the column expressions, which transform_version stands for."""
    return digest({column.name: column.expression for column in table.columns if column.expression is not None})


def schema_fingerprint(table: Table) -> str:
    """Return a digest of the columns and the key, which schema_version stands for."""
    columns = {
        column.name: [column.type, column.nullable, column.published, column.published_type] for column in table.columns
    }
    return digest({"columns": columns, "key": table.key})


def _filter_config(table: Table, allowed: tuple[str, ...] | None) -> dict[str, Any]:
    if table.filter is None or allowed is None:
        return {}
    if (table.filter.setting, table.filter.column) == CRON_JOBS_FILTER:
        return {"licenses": sorted(allowed)}
    return {"filter": {"column": table.filter.column, "values": sorted(allowed)}}

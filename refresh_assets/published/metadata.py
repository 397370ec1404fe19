"""What a materialization tells in the Dagster UI. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.declaration import Table
from refresh_assets.published.fetch import Fetched
from refresh_assets.published.files import PublishedFile
from refresh_assets.published.load import Load, Result, Row
from refresh_assets.published.manifest import Manifest

_CELL = 80


def of_manifest(manifest: Manifest, base: BaseUrl) -> dict[str, Any]:
    return {
        "dagster/uri": dg.MetadataValue.url(base.address("manifest.json")),
        "sha256": manifest.sha256,
        "files": len(manifest.names),
        "names": dg.MetadataValue.json(list(manifest.names[:100])),
    }


def of_file(file: PublishedFile, base: BaseUrl, fetched: Fetched | None) -> dict[str, Any]:
    return {
        "dagster/uri": dg.MetadataValue.url(base.address(file.name)),
        "dagster/row_count": file.layout.rows,
        "sha256": file.sha256,
        "bytes": file.bytes,
        "rows_in_manifest": file.rows,
        "source": _source(fetched),
        "header": ", ".join(file.layout.header),
        "path": dg.MetadataValue.path(str(file.path)),
        **({"seconds": round(fetched.seconds, 3)} if fetched else {}),
    }


def _source(fetched: Fetched | None) -> str:
    if fetched is None:
        return "an earlier file of the cache, as asked for"
    return "downloaded" if fetched.downloaded else "in the cache already"


def of_declaration(table: Table) -> dict[str, Any]:
    """Return the metadata that the definition of a table has, whatever its runs do."""
    columns = [
        dg.TableColumn(
            column.name,
            column.type,
            description="" if column.expression is None else f"stored: {column.expression}",
            constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=(column.name,) == table.key),
        )
        for column in table.columns
    ]
    return {
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "key": ", ".join(table.key),
        "file": table.file,
    }


def of_result(load: Load, result: Result) -> dict[str, Any]:
    """Return what a refresh did to a table."""
    told: dict[str, Any] = {
        "outcome": result.outcome,
        "message": result.message,
        "dagster/table_name": f"{load.schema}.{load.table.name}",
        "job_key": result.job_key,
        "sha256": load.sha256,
        "added": result.added,
        "changed": result.changed,
        "removed": result.removed,
        "changed_parts": dg.MetadataValue.json(list(result.changed_parts)),
        "seconds": dg.MetadataValue.json({phase: round(spent, 3) for phase, spent in result.phases.items()}),
    }
    if result.rows is not None:
        told["dagster/row_count"] = result.rows
    if result.rows_staged is not None:
        told["rows_staged"] = result.rows_staged
    if result.load_id is not None:
        told["load_id"] = result.load_id
    if result.drift is not None:
        told["drift"] = result.drift
    if result.outcome == "loaded":
        told["what_changed"] = dg.MetadataValue.md(_what_changed(load.table, result))
    if result.filter_counts:
        told["rows_by_value"] = dg.MetadataValue.md(_by_value(load.table, result))
    return told


def _what_changed(table: Table, result: Result) -> str:
    """Return samples of the added, changed and removed rows as Markdown."""
    names = [column.name for column in table.columns]
    changed = [
        [_cell(old[names.index(k)]) for k in table.key] + [name, _cell(before), _cell(after)]
        for old, new in result.samples.changed
        for name, before, after in zip(names, old, new, strict=True)
        if before != after
    ]
    tables = [
        _section(f"{result.changed} changed", [*table.key, "column", "old", "new"], changed),
        _section(f"{result.added} added", names, _cells(result.samples.added)),
        _section(f"{result.removed} removed", names, _cells(result.samples.removed)),
    ]
    return "\n\n".join(text for text in tables if text) or "no row changed"


def _by_value(table: Table, result: Result) -> str:
    column = table.filter.column if table.filter else ""
    rows = [
        [_cell(count.value), str(count.rows), "kept" if count.kept else "left out"]
        for count in result.filter_counts[:20]
    ]
    return _markdown([column, "rows", ""], rows)


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    return f"**{title}** (a sample)\n\n{_markdown(header, rows)}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: str | None) -> str:
    """Return a value for a Markdown table: on one line, nothing of it taken for markup."""
    if value is None:
        return "NULL"
    text = value if len(value) <= _CELL else value[:_CELL] + "…"
    text = "".join(f"\\{c}" if c in "\\`*_{}[]<>#|~!" else " " if c in "\r\n\t" else c for c in text)
    return text or '""'

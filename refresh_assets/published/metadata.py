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
from refresh_assets.secrets import mask

_CELL = 80
# The UI shows Markdown shorter than this in place, and a longer one behind a button.
_IN_PLACE = 1000


def of_manifest(manifest: Manifest, base: BaseUrl) -> dict[str, Any]:
    return {
        "dagster/uri": dg.MetadataValue.url(base.address("manifest.json")),
        "sha256": manifest.sha256,
        "files": len(manifest.names),
        "names": dg.MetadataValue.json([mask(name) for name in manifest.names[:100]]),
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
    """Return what a refresh did to a table; the UI shows it in this order."""
    told: dict[str, Any] = {
        "outcome": result.outcome,
        "message": result.message,
        "drift": result.drift,
        "added": result.added,
        "changed": result.changed,
        "removed": result.removed,
        **_told_of_rows(load.table, result),
        "dagster/row_count": result.rows,
        "rows_staged": result.rows_staged,
        "changed_parts": dg.MetadataValue.json(list(result.changed_parts)),
        "dagster/table_name": f"{load.schema}.{load.table.name}",
        "sha256": load.sha256,
        "job_key": result.job_key,
        "load_id": result.load_id,
        "seconds": dg.MetadataValue.json({phase: round(spent, 3) for phase, spent in result.phases.items()}),
    }
    return {name: value for name, value in told.items() if value is not None}


def _told_of_rows(table: Table, result: Result) -> dict[str, Any]:
    told = {}
    if result.outcome == "loaded":
        whole, short = _what_changed(table, result), _what_changed_in_place(table, result)
        told["what_changed"] = dg.MetadataValue.md(short)
        if short != whole:
            told["what_changed_at_length"] = dg.MetadataValue.md(whole)
    if result.filter_counts:
        told["rows_by_value"] = dg.MetadataValue.md(_by_value(table, result))
    return told


def _what_changed_in_place(table: Table, result: Result) -> str:
    """Return as many samples as the UI shows in place, one of each kind at least."""
    texts = (_what_changed(table, result, rows) for rows in (10, 5, 3, 2))
    return next((text for text in texts if len(text) < _IN_PLACE), None) or _what_changed(table, result, 1)


def _what_changed(table: Table, result: Result, rows: int | None = None) -> str:
    """Return samples of the added, changed and removed rows as Markdown, at most `rows` of each kind."""
    names = [column.name for column in table.columns]
    samples = result.samples
    altered = samples.changed[:rows]
    cells = [
        [_cell(old[names.index(k)]) for k in table.key] + [name, _cell(before), _cell(after)]
        for old, new in altered
        for name, before, after in zip(names, old, new, strict=True)
        if before != after
    ]
    added, removed = samples.added[:rows], samples.removed[:rows]
    tables = [
        _section(_title(result.changed, "changed", altered), [*table.key, "column", "old", "new"], cells),
        _section(_title(result.added, "added", added), names, _cells(added)),
        _section(_title(result.removed, "removed", removed), names, _cells(removed)),
    ]
    return "\n\n".join(text for text in tables if text) or "no row changed"


def _title(count: int, what: str, shown: Sequence[Any]) -> str:
    return f"**{count} {what}**" + (f", {len(shown)} of them:" if len(shown) < count else "")


def _by_value(table: Table, result: Result) -> str:
    column = table.filter.column if table.filter else ""
    rows = [
        [_cell(count.value), str(count.rows), "kept" if count.kept else "left out"]
        for count in result.filter_counts[:20]
    ]
    return _markdown([column, "rows", "in the table"], rows)


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    return f"{title}\n\n{_markdown(header, rows)}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[_cell(name) for name in header], ["---"] * len(header), *rows]
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

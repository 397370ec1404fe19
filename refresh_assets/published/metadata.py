"""What the manifest's and a file's materialization and a table's declaration tell. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from refresh_assets.base_url import BaseUrl
from refresh_assets.published.choice import Choice
from refresh_assets.published.files import ASKED_AT
from refresh_assets.published.publisher.manifest import Manifest
from refresh_assets.published.table.declaration import Column, Table
from refresh_assets.secrets import mask

MadeFrom = Mapping[str, Sequence[str]]


def of_manifest(manifest: Manifest, base: BaseUrl) -> dict[str, Any]:
    return {
        "dagster/uri": dg.MetadataValue.url(base.address("manifest.json")),
        "sha256": manifest.sha256,
        "files": len(manifest.names),
        "names": dg.MetadataValue.json([mask(name) for name in manifest.names[:100]]),
    }


def of_file(choice: Choice, base: BaseUrl) -> dict[str, Any]:
    file, fetched = choice.file, choice.fetched
    told: dict[str, Any] = {
        "source": choice.source,
        ASKED_AT: dg.MetadataValue.timestamp(file.asked_at) if file.asked_at else None,
        "instead_of": file.instead_of,
        "dagster/uri": dg.MetadataValue.url(base.address(file.name)),
        "dagster/row_count": file.layout.rows,
        "rows_in_manifest": file.rows,
        "dagster/size_bytes": file.bytes,
        "sha256": file.sha256,
        "header": ", ".join(file.layout.header),
        "path": dg.MetadataValue.path(str(file.path)),
    }
    if fetched is not None:
        told["dagster/last_updated_timestamp"] = dg.MetadataValue.timestamp(fetched.file.fetched_at)
        told["seconds"] = round(fetched.seconds, 3)
        if fetched.downloaded and fetched.seconds:
            told["bytes_per_second"] = round(file.bytes / fetched.seconds)
    return {name: value for name, value in told.items() if value is not None}


def of_published_columns(table: Table) -> dict[str, Any]:
    """Return the metadata that the definition of a file has: its columns, as they are read."""
    columns = [
        dg.TableColumn(
            column.name,
            column.type,
            description=_described(table, column.name),
            constraints=dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in table.published
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=columns)}


def of_declaration(table: Table) -> dict[str, Any]:
    """Return the metadata that the definition of a table has, whatever its runs do."""
    return {
        "dagster/column_schema": _columns_of(table),
        "key": ", ".join(table.key),
        "file": table.file,
        **({"filter": table.filter.column} if table.filter else {}),
    }


def _columns_of(table: Table) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type,
                description=". ".join(text for text in _column_texts(column, table.file) if text),
                constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=(column.name,) == table.key),
            )
            for column in table.columns
        ]
    )


def lineage_of(file: dg.AssetKey, made_from: MadeFrom) -> dg.TableColumnLineage:
    """Return which of the file's columns each of the table's is made from."""
    return dg.TableColumnLineage(
        deps_by_column={
            column: [dg.TableColumnDep(asset_key=file, column_name=source) for source in sources]
            for column, sources in made_from.items()
        }
    )


def _column_texts(column: Column, file: str) -> tuple[str, str]:
    source = f"{file}: {column.name}" if column.expression is None else column.expression
    return column.description.rstrip("."), f"← {source}"


def _described(table: Table, name: str) -> str:
    return next(column.description for column in table.columns if column.name == name)

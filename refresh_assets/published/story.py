"""The story that a table's materialization tells in the Dagster UI. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import dagster as dg

from refresh_assets.markdown import IN_PLACE, in_place, table
from refresh_assets.published.files import ASKED_AT
from refresh_assets.published.metadata import lineage_of
from refresh_assets.published.table.declaration import Table
from refresh_assets.published.table.glance import Glance
from refresh_assets.published.table.load import FilterCount, Load, Result, Row
from refresh_assets.settings import PostgresSettings

VALUES_SHOWN = 20
# What carries over from the load to the runs that find nothing to do, as long as the table holds that load.
LASTING = ("what_changed", "what_changed_at_length", "rows_by_value")
# Leaves room for the line that stands before what an earlier load changed.
_ROOM = 110


@dataclass(frozen=True)
class Story:
    """All that a refresh found out about a table; `earlier` is the metadata of the materialization before."""

    load: Load
    result: Result
    glance: Glance
    postgres: PostgresSettings
    file: dg.AssetKey
    fetch_seconds: float | None = None
    earlier: Mapping[str, Any] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        """Return what a refresh did to a table; the UI shows it in this order."""
        load, result = self.load, self.result
        told: dict[str, Any] = {
            "outcome": result.outcome,
            "message": result.message,
            "drift": result.drift,
            "earlier_file": self._earlier_file(),
            "added": result.added,
            "changed": result.changed,
            "removed": result.removed,
            **self._told_of_rows(),
            "preview": self._preview(),
            "dagster/row_count": result.rows,
            "rows_staged": result.rows_staged,
            "published_bytes": load.layout.bytes,
            "changed_parts": dg.MetadataValue.json(list(result.changed_parts)),
            ASKED_AT: dg.MetadataValue.timestamp(load.asked_at) if load.asked_at else None,
            "sha256": load.sha256,
            "job_key": result.job_key,
            "load_id": result.load_id,
            "loaded_by": dg.MetadataValue.dagster_run(result.loaded_by) if result.loaded_by else None,
            **self._place(),
            **self._speed(),
            "made_from": self._made_from(),
            "dagster/column_lineage": lineage_of(self.file, self.glance.made_from),
        }
        return {name: value for name, value in told.items() if value is not None}

    def _place(self) -> dict[str, Any]:
        postgres, load, at = self.postgres, self.load, self.result.loaded_at
        host = f"[{postgres.host}]" if ":" in postgres.host else quote(postgres.host, safe="")
        return {
            "dagster/table_name": f"{postgres.database}.{load.schema}.{load.table.name}",
            "dagster/uri": f"postgresql://{host}:{postgres.port}/{quote(postgres.database)}",
            "dagster/last_updated_timestamp": dg.MetadataValue.timestamp(at) if at else None,
        }

    def _speed(self) -> dict[str, Any]:
        phases = self.result.phases
        told: dict[str, Any] = {"seconds_fetch": _rounded(self.fetch_seconds)}
        told |= {f"seconds_{phase}": _rounded(phases.get(phase)) for phase in ("stage", "compare", "apply")}
        seconds = sum(phases.values())
        told["seconds"] = _rounded(seconds)
        if self.result.outcome == "loaded" and seconds:
            told["rows_per_second"] = round(self.load.rows / seconds)
            told["bytes_per_second"] = round(self.load.layout.bytes / seconds)
        return told

    def _earlier_file(self) -> str | None:
        if not self.result.earlier or self.load.instead_of is None:
            return None
        return (
            f"made from an earlier file by wish, in place of the published one ({self.load.instead_of[:12]}…), "
            "until another file is published"
        )

    def _told_of_rows(self) -> dict[str, Any]:
        if self.result.outcome == "unchanged":
            return self._told_of_last_load()
        told = {}
        if self.result.outcome == "loaded":
            whole, short = self._what_changed(), in_place(self._what_changed, (10, 5, 3, 2, 1), IN_PLACE - _ROOM)
            told["what_changed"] = dg.MetadataValue.md(short)
            if short != whole:
                told["what_changed_at_length"] = dg.MetadataValue.md(whole)
        if self.result.filter_counts:
            told["rows_by_value"] = rows_by_value(self.load.table, self.result.filter_counts)
        return told

    def _told_of_last_load(self) -> dict[str, Any]:
        """Return what the load changed that the table still holds, so that the page of the table goes on showing it."""
        result = self.result
        if result.load_id is None or result.loaded_at is None or result.last_changes is None:
            return {"what_changed": dg.MetadataValue.md("nothing this time")}
        added, changed, removed = result.last_changes
        line = (
            f"nothing this time; load {result.load_id} of {result.loaded_at:%Y-%m-%d %H:%M} UTC: "
            f"{added:,} added, {changed:,} changed, {removed:,} removed"
        )
        before = self.earlier if _value(self.earlier, "load_id") == result.load_id else {}
        told = {name: before[name] for name in LASTING if name in before}
        sample = str(_value(before, "what_changed") or "")
        if _value(before, "outcome") != "loaded":
            # It begins with such a line itself.
            sample = sample.partition("\n\n")[2]
        return {**told, "what_changed": dg.MetadataValue.md(f"{line}\n\n{sample}".rstrip())}

    def _what_changed(self, rows: int | None = None) -> str:
        """Return samples of the added, changed and removed rows as Markdown, at most `rows` of each kind."""
        names, key = self._names, self.load.table.key
        result, samples = self.result, self.result.samples
        altered = samples.changed[:rows]
        cells = [
            [*(old[names.index(k)] for k in key), name, before, after]
            for old, new in altered
            for name, before, after in zip(names, old, new, strict=True)
            if before != after
        ]
        added, removed = samples.added[:rows], samples.removed[:rows]
        tables = [
            _section(_title(result.changed, "changed", altered), [*key, "column", "old", "new"], cells),
            _section(_title(result.added, "added", added), names, added),
            _section(_title(result.removed, "removed", removed), names, removed),
        ]
        return "\n\n".join(text for text in tables if text) or "no row changed"

    def _made_from(self) -> Any:
        """Return which of the file's columns each of the table's is made from, as people read it."""
        rows = [
            [column.name, ", ".join(self.glance.made_from.get(column.name, ())) or "-", column.expression or "as it is"]
            for column in self.load.table.columns
        ]
        return dg.MetadataValue.md(table(["column", f"of {self.load.table.file}", "how"], rows))

    def _preview(self) -> Any:
        rows = self.glance.preview
        if not rows:
            return None
        return dg.MetadataValue.md(in_place(lambda count: table(self._names, rows[:count]), (5, 4, 3, 2, 1)))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.load.table.columns]


def rows_by_value(declared: Table, counts: Sequence[FilterCount]) -> dg.MarkdownMetadataValue:
    """Return how many published rows have each value of the filter's column, and which are kept."""
    column = declared.filter.column if declared.filter else ""
    rows = [[count.value, f"{count.rows:,}", "kept" if count.kept else "left out"] for count in counts[:VALUES_SHOWN]]
    return dg.MetadataValue.md(table([column, "rows", "in the table"], rows))


def _value(metadata: Mapping[str, Any], name: str) -> Any:
    found = metadata.get(name)
    return getattr(found, "value", found)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _title(count: int, what: str, shown: Sequence[Any]) -> str:
    return f"**{count:,} {what}**" + (f", {len(shown)} of them:" if len(shown) < count else "")


def _section(title: str, header: Sequence[str], rows: Sequence[Row] | Sequence[Sequence[str | None]]) -> str:
    return f"{title}\n\n{table(header, rows)}" if rows else ""

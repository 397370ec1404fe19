"""The loads of the tables as people ask for them: which there were, and which of their files are still kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, connect, limit
from refresh_assets.published.files import cache_of
from refresh_assets.published.table import history
from refresh_assets.published.table.history import PastLoad
from refresh_assets.published.table.job_key import changed_parts
from refresh_assets.settings import Settings

LOOK_SECONDS = 30.0


@dataclass(frozen=True)
class ToldLoad:
    """A load with its table's name; `changed_parts` are those that differ from the load before.

    `kept` tells whether its file is in the cache of this machine, so that it can be compared and loaded again.
    """

    table: str
    load: PastLoad
    changed_parts: tuple[str, ...]
    kept: bool

    def as_json(self) -> dict[str, Any]:
        load = self.load
        return {
            "load_id": load.load_id,
            "loaded_at": load.loaded_at.astimezone(timezone.utc).isoformat(timespec="seconds"),
            "table": self.table,
            "rows_staged": load.rows_staged,
            "rows": load.rows,
            "added": load.added,
            "changed": load.changed,
            "removed": load.removed,
            "changed_parts": list(self.changed_parts),
            "seconds": round(load.seconds, 3),
            "sha256": load.sha256,
            "job_key": load.job_key,
            "run_id": load.run_id,
            "drifted": load.drifted,
            "shrink_accepted": load.shrink_accepted,
            "instead_of": load.instead_of,
            "file_kept": self.kept,
        }

    @property
    def line(self) -> str:
        """The load on one line, for people."""
        load = self.load
        notes = [
            *(["first load"] if not self.changed_parts and not load.drifted else []),
            *([f"{' and '.join(self.changed_parts)} changed"] if self.changed_parts else []),
            *(["after drift"] if load.drifted else []),
            *(["shrink accepted"] if load.shrink_accepted else []),
            *(["earlier file by wish"] if load.instead_of else []),
            *([] if self.kept else ["file not kept"]),
        ]
        return (
            f"{load.load_id:>6}  {load.loaded_at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC  {self.table}: "
            f"{load.rows:,} rows, +{load.added:,} ~{load.changed:,} -{load.removed:,}, {load.seconds:.1f} s, "
            f"file {load.sha256[:12]}, run {(load.run_id or '-')[:8]}, {', '.join(notes)}"
        )


def told_loads(settings: Settings, files: Mapping[str, str], table: str | None, most: int) -> list[ToldLoad]:
    """Return the newest loads of one table or of all, the newest first; `files` are the published files by table."""
    tables = {file: name for name, file in files.items()}
    kept = _kept(settings)
    with _looking(settings) as conn:
        if not history.exists(conn, settings.schema):
            return []
        # One more, since a load is told by what differs from the load before it.
        loads = [
            load
            for file in ([files[table]] if table else files.values())
            for load in _with_changes(history.past_loads(conn, settings.schema, limit=most + 1, job=file), most)
        ]
    loads.sort(key=lambda found: found[0].load_id, reverse=True)
    return [ToldLoad(tables[load.file], load, parts, load.sha256 in kept) for load, parts in loads[:most]]


def load_of(settings: Settings, load_id: int) -> PastLoad:
    """Return the load of a number. Raises RefreshError where the history has none."""
    with _looking(settings) as conn:
        there = history.exists(conn, settings.schema)
        found = history.past_loads(conn, settings.schema, limit=1, load_id=load_id) if there else []
    if not found:
        raise RefreshError(f"there is no load {load_id}; `refresh-assets history` lists them")
    return found[0]


def _with_changes(loads: list[PastLoad], most: int) -> list[tuple[PastLoad, tuple[str, ...]]]:
    before = [*loads[1:], None][: len(loads)]
    told = [(x, changed_parts(y.parts, x.parts) if y else ()) for x, y in zip(loads, before, strict=True)]
    return told[:most]


def _kept(settings: Settings) -> Collection[str]:
    cache = cache_of(settings)
    return {file.sha256 for file in cache.list()} if cache.folder.exists() else ()


def _looking(settings: Settings) -> Connection:
    conn = connect(settings.postgres, "refresh-assets history")
    limit(conn, lock_seconds=LOOK_SECONDS, statement_seconds=LOOK_SECONDS, session=True)
    return conn

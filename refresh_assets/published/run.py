"""One refresh of tables in this very process, recorded like any run. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dagster as dg

from refresh_assets.definitions import build_defs, declarations
from refresh_assets.errors import RefreshError
from refresh_assets.published.assets import MANIFEST
from refresh_assets.published.choice import Wish
from refresh_assets.published.report import report_of
from refresh_assets.published.schedules import JOB
from refresh_assets.published.table_report import TableReport
from refresh_assets.reasons import failed_checks, tracebacks
from refresh_assets.recorded import recording
from refresh_assets.settings import Settings

TABLE_SUFFIX = "_table"


@dataclass(frozen=True)
class House:
    """The loaded definitions, for one process."""

    repository: dg.RepositoryDefinition

    @classmethod
    def load(cls) -> House:
        """Load the definitions. Raises RefreshError where a setting or a declaration is wrong."""
        return cls(build_defs().get_repository_def())

    @property
    def tables(self) -> list[str]:
        """The names of the declared tables, in alphabetical order."""
        keys = self.repository.get_job(JOB).asset_layer.executable_asset_keys
        names = [key.to_user_string() for key in keys]
        return sorted(name.removesuffix(TABLE_SUFFIX) for name in names if name.endswith(TABLE_SUFFIX))

    def select(self, wanted: Sequence[str]) -> list[str]:
        """Return the wanted tables, all without a wish. Raises RefreshError that lists what is declared."""
        unknown = [name for name in wanted if name not in self.tables]
        if unknown:
            raise RefreshError(f"no such table: {', '.join(unknown)}; declared are {', '.join(self.tables)}")
        return list(dict.fromkeys(wanted)) or self.tables


def declared_files() -> dict[str, str]:
    """Return the published file of each declared table, whatever the settings. Raises DeclarationError."""
    return {table.name: table.file for table in declarations()}


class Refreshed(NamedTuple):
    """What a run did to each table, what the checks that failed say, and where the steps that failed did so."""

    reports: list[TableReport]
    failed_checks: list[str]
    tracebacks: list[str]


def refresh(
    house: House, settings: Settings, tables: Sequence[str], *, accept_shrink: bool, wish: Wish | None = None
) -> Refreshed:
    """Run the weekly job over some tables in this process; `wish` names the file to load where it is not the usual one.

    Raises RefreshError where Dagster's storage cannot be reached.
    """
    job = house.repository.get_job(JOB)
    with recording(settings.home) as recorder:
        run_id, events = recorder.run(
            job,
            run_config=_run_config(tables, accept_shrink=accept_shrink, wish=wish),
            selection=_selection(tables, wish),
            tags={"refresh/reload": _named(wish)} if wish else {},
        )
        reports = [report_of(table, run_id, events) for table in tables]
        return Refreshed(reports, failed_checks(events), tracebacks(events))


def _selection(tables: Sequence[str], wish: Wish | None) -> frozenset[dg.AssetKey]:
    keys = [dg.AssetKey(f"{table}{part}") for table in tables for part in ("_csv", TABLE_SUFFIX)]
    # A file of the cache can be loaded while the publisher does not answer.
    return frozenset(keys if wish and wish.sha256 else [MANIFEST, *keys])


def _run_config(tables: Sequence[str], *, accept_shrink: bool, wish: Wish | None) -> dict[str, Any]:
    ops: dict[str, Any] = {}
    for table in tables:
        if accept_shrink:
            ops[f"{table}{TABLE_SUFFIX}"] = {"config": {"accept_shrink": True}}
        if wish:
            file = {"sha256": wish.sha256} if wish.sha256 else {"published": wish.published}
            ops[f"{table}_csv"] = {"config": file}
    return {"ops": ops} if ops else {}


def _named(wish: Wish) -> str:
    return wish.sha256 or "published"

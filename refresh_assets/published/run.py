"""One refresh in this very process, recorded in Dagster's storage like any run. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from refresh_assets.definitions import build_defs, declared_tables
from refresh_assets.errors import RefreshError
from refresh_assets.instance import prepare_home
from refresh_assets.published.assets import MANIFEST
from refresh_assets.published.report import TableReport, failed_checks, reason
from refresh_assets.published.schedules import JOB
from refresh_assets.settings import Settings

TABLE_SUFFIX = "_table"
MODULE = "refresh_assets.definitions"
LOCATION = "refresh_assets"
REPOSITORY = "__repository__"
STORAGE_STATEMENT_MILLISECONDS = 60_000


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
    return {
        spec.key.to_user_string().removesuffix(TABLE_SUFFIX): str(spec.metadata["file"])
        for asset in declared_tables().assets or ()
        if isinstance(asset, dg.AssetsDefinition)
        for spec in asset.specs
        if "file" in spec.metadata
    }


class Refreshed(NamedTuple):
    """What a run did to each table, and what the checks that failed say."""

    reports: list[TableReport]
    failed_checks: list[str]


@contextlib.contextmanager
def storage(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open Dagster's storage as DAGSTER_HOME configures it, or the project's configuration in a folder of `home`.

    Raises RefreshError where it cannot be reached.
    """
    if not os.environ.get("DAGSTER_HOME", "").strip():
        os.environ["DAGSTER_HOME"] = str(prepare_home(home))
    with dg.DagsterInstance.get() as instance:
        # What keeps connections open in the webserver spares a run a new one for every event that it stores.
        instance.optimize_for_webserver(STORAGE_STATEMENT_MILLISECONDS, pool_recycle=3600, max_overflow=5)
        yield instance


def refresh(house: House, settings: Settings, tables: Sequence[str], *, accept_shrink: bool) -> Refreshed:
    """Run the weekly job over some tables in this process.

    Raises RefreshError where Dagster's storage cannot be reached.
    """
    job = house.repository.get_job(JOB)
    with storage(settings.home) as instance:
        run = instance.create_run_for_job(
            job,
            run_config=_run_config(tables, accept_shrink=accept_shrink),
            asset_selection=_selection(tables),
            tags={"refresh/started_by": "command line"},
            remote_job_origin=_origin(),
        )
        with _ended_by_signals(), contextlib.suppress(KeyboardInterrupt, DagsterExecutionInterruptedError):
            execute_run(InMemoryJob(job), run, instance)
        records = instance.all_logs(run.run_id)
        events = [record.dagster_event for record in records if record.dagster_event is not None]
        return Refreshed([TableReport.of(table, run.run_id, events) for table in tables], failed_checks(events))


def failed_reports(tables: Sequence[str], error: BaseException) -> list[TableReport]:
    """Return a report for each table where no run could be started."""
    return [TableReport(table, "failed", error=reason(error)) for table in tables]


def _selection(tables: Sequence[str]) -> frozenset[dg.AssetKey]:
    keys = [dg.AssetKey(f"{table}{part}") for table in tables for part in ("_csv", TABLE_SUFFIX)]
    return frozenset([MANIFEST, *keys])


def _run_config(tables: Sequence[str], *, accept_shrink: bool) -> dict[str, Any]:
    # Standard error is for people: what is shown in full in the UI is not repeated there.
    config: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    if accept_shrink:
        config["ops"] = {f"{table}{TABLE_SUFFIX}": {"config": {"accept_shrink": True}} for table in tables}
    return config


def _origin() -> RemoteJobOrigin:
    """Return the origin that a run started from the UI has, so that every sensor sees this run as well."""
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), JOB)


class _ended_by_signals:  # noqa: N801 - reads as what it does in a with statement
    """Let SIGTERM end a run as Ctrl-C does: the transaction is rolled back and the run recorded as failed."""

    def __enter__(self) -> None:
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

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
from typing_extensions import Self

from refresh_assets.definitions import build_defs, declared_tables
from refresh_assets.errors import RefreshError
from refresh_assets.instance import prepare_home
from refresh_assets.published.assets import MANIFEST
from refresh_assets.published.choice import Wish
from refresh_assets.published.report import failed_checks, report_of, tracebacks
from refresh_assets.published.schedules import JOB
from refresh_assets.published.table_report import TableReport
from refresh_assets.settings import Settings

TABLE_SUFFIX = "_table"
MODULE = "refresh_assets.definitions"
LOCATION = "refresh_assets"
REPOSITORY = "__repository__"
STARTED_BY_TAG = "refresh/started_by"
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
    """What a run did to each table, what the checks that failed say, and where the steps that failed did so."""

    reports: list[TableReport]
    failed_checks: list[str]
    tracebacks: list[str]


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


def refresh(
    house: House, settings: Settings, tables: Sequence[str], *, accept_shrink: bool, wish: Wish | None = None
) -> Refreshed:
    """Run the weekly job over some tables in this process; `wish` names the file to load where it is not the usual one.

    Raises RefreshError where Dagster's storage cannot be reached.
    """
    job = house.repository.get_job(JOB)
    with _Signals() as signals, storage(settings.home) as instance:
        run = instance.create_run_for_job(
            job,
            run_config=_run_config(tables, accept_shrink=accept_shrink, wish=wish),
            asset_selection=_selection(tables, wish),
            tags={STARTED_BY_TAG: "command line", **({"refresh/reload": _named(wish)} if wish else {})},
            remote_job_origin=_origin(),
        )
        with contextlib.suppress(KeyboardInterrupt, DagsterExecutionInterruptedError):
            execute_run(InMemoryJob(job), run, instance)
        signals.ignore()
        records = instance.all_logs(run.run_id)
        events = [record.dagster_event for record in records if record.dagster_event is not None]
        reports = [report_of(table, run.run_id, events) for table in tables]
        return Refreshed(reports, failed_checks(events), tracebacks(events))


def _selection(tables: Sequence[str], wish: Wish | None) -> frozenset[dg.AssetKey]:
    keys = [dg.AssetKey(f"{table}{part}") for table in tables for part in ("_csv", TABLE_SUFFIX)]
    # A file of the cache can be loaded while the publisher does not answer.
    return frozenset(keys if wish and wish.sha256 else [MANIFEST, *keys])


def _run_config(tables: Sequence[str], *, accept_shrink: bool, wish: Wish | None) -> dict[str, Any]:
    # Standard error is for people: what the UI shows in full is not repeated there, and tracebacks come at the end.
    config: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    ops: dict[str, Any] = {}
    for table in tables:
        if accept_shrink:
            ops[f"{table}{TABLE_SUFFIX}"] = {"config": {"accept_shrink": True}}
        if wish:
            file = {"sha256": wish.sha256} if wish.sha256 else {"published": wish.published}
            ops[f"{table}_csv"] = {"config": file}
    return {**config, "ops": ops} if ops else config


def _named(wish: Wish) -> str:
    return wish.sha256 or "published"


def _origin() -> RemoteJobOrigin:
    """Return the origin that a run started from the UI has, so that every sensor sees this run as well."""
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), JOB)


class _Signals:
    """Lets SIGTERM end a run as Ctrl-C does: the transaction is rolled back and the run recorded as failed."""

    def __enter__(self) -> Self:
        self._before: dict[signal.Signals, Any] = {}
        self._set(signal.SIGTERM, signal.default_int_handler)
        return self

    def ignore(self) -> None:
        """Let nothing end the process any more before it has said what it did."""
        self._set(signal.SIGTERM, signal.SIG_IGN)
        self._set(signal.SIGINT, signal.SIG_IGN)

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _set(self, number: signal.Signals, handler: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(number, handler)
            # None: not set from Python, and not to be set again by it.
            self._before.setdefault(number, signal.SIG_DFL if before is None else before)

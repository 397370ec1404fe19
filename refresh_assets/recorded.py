"""Runs in this very process, recorded in Dagster's storage like any other. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
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

from refresh_assets.instance import prepare_home

MODULE = "refresh_assets.definitions"
LOCATION = "refresh_assets"
REPOSITORY = "__repository__"
STARTED_BY_TAG = "refresh/started_by"
STORAGE_STATEMENT_MILLISECONDS = 60_000


class Recorded(NamedTuple):
    """A run that has ended, and all that Dagster recorded of it."""

    run_id: str
    events: Sequence[dg.DagsterEvent]


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


@dataclass(frozen=True)
class Recorder:
    """Records runs in a storage, and lets signals end them."""

    instance: dg.DagsterInstance
    signals: _Signals

    def run(
        self,
        job: dg.JobDefinition,
        *,
        run_config: Mapping[str, Any],
        selection: frozenset[dg.AssetKey],
        tags: Mapping[str, str] | None = None,
    ) -> Recorded:
        """Run a job of the definitions to its end; a signal ends it as failed, and is ignored from then on."""
        run = self.instance.create_run_for_job(
            job,
            # Standard error is for people: what the UI shows in full is not repeated, and tracebacks come at the end.
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, **run_config},
            asset_selection=selection,
            tags={STARTED_BY_TAG: "command line", **(tags or {})},
            remote_job_origin=_origin(job.name),
        )
        with contextlib.suppress(KeyboardInterrupt, DagsterExecutionInterruptedError):
            execute_run(InMemoryJob(job), run, self.instance)
        self.signals.ignore()
        records = self.instance.all_logs(run.run_id)
        return Recorded(run.run_id, [record.dagster_event for record in records if record.dagster_event is not None])


@contextlib.contextmanager
def recording(home: Path) -> Iterator[Recorder]:
    """Open the storage to record runs in it. Raises RefreshError where it cannot be reached."""
    with _Signals() as signals, storage(home) as instance:
        yield Recorder(instance, signals)


def _origin(job: str) -> RemoteJobOrigin:
    """Return the origin that a run started from the UI has, so that every sensor sees this run as well."""
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE)
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, location_name=LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job)


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

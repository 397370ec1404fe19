"""Dagster's own daemon as the work of a leader, in this very process. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg
import sqlalchemy.exc
from dagster._core.launcher.base import LaunchRunContext
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._daemon.controller import DagsterDaemonController, create_daemons_from_instance
from dagster._utils.log import configure_loggers
from dagster_postgres.run_storage import PostgresRunStorage
from dagster_postgres.utils import DagsterPostgresException

from refresh_assets.daemon.instigators import complete_states
from refresh_assets.daemon.locations import Locations
from refresh_assets.daemon.refused import RefusedError
from refresh_assets.daemon.register import connect_register
from refresh_assets.daemon.timing import Timing
from refresh_assets.daemon.workspace import Workspace
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.queries import queries
from refresh_assets.secrets import masked
from refresh_assets.settings import Env
from refresh_assets.stopping import Stopping

_REGISTER = queries("refresh_assets.daemon", "sql/register.sql")
_LOOK = 0.1
_MOMENT = 0.01
_COMPLETE_EVERY = 10.0
_ACTIVE = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
# What starts runs: it ends between two of them.
_STARTS_RUNS = "dagster-daemon-QUEUED_RUN_COORDINATOR"
_CLOSING = 2.0


class Launches:
    """The threads that are launching a run."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def watch(self, instance: dg.DagsterInstance) -> None:
        """Keep account of the instance's launches."""
        launcher = instance.run_launcher
        launch = launcher.launch_run

        def launch_run(context: LaunchRunContext) -> None:
            self.threads.add(threading.get_ident())
            try:
                launch(context)
            finally:
                self.threads.discard(threading.get_ident())

        launcher.launch_run = launch_run  # type: ignore[method-assign]


class DagsterDaemon:
    """The schedules, sensors, queue and monitoring of one Dagster instance; `files` are workspace files."""

    def __init__(
        self, files: Sequence[Path], timing: Timing, echo: Callable[[str], None], env: Env = os.environ
    ) -> None:
        self._files = files
        self._timing = timing
        self._echo = echo
        self._env = env
        self._stack = contextlib.ExitStack()
        self._instance: dg.DagsterInstance | None = None
        self._workspace: Workspace | None = None
        self._ending: threading.Thread | None = None
        self._controller: DagsterDaemonController | None = None
        self._launches = Launches()

    def prepare(self) -> None:
        """Open the instance and load the code.

        Raises RefreshError where Dagster's storage cannot be had, RefusedError where it is in another database.
        """
        if self._instance is None:
            self._instance = self._open_instance()
            _refuse_other_storage(self._instance)
        if self._workspace is None:
            configure_loggers(handler="default", formatter="colored", log_level="INFO")
            locations = Locations(self._timing, self._echo, self._env)
            self._workspace = Workspace(self._instance, self._files, self._timing, locations, self._echo)

    def lead(self, stopping: Stopping) -> None:
        """Run the daemon until the end is wished for. Raises RefreshError where one of its threads ended."""
        instance, workspace = self._instance, self._workspace
        if instance is None or workspace is None:
            raise AssertionError("it is prepared first")
        workspace.lead()
        self._launches.watch(instance)
        daemons = [self._stack.enter_context(daemon) for daemon in create_daemons_from_instance(instance)]
        self._controller = self._stack.enter_context(
            DagsterDaemonController(workspace.context, daemons, grpc_server_registry=workspace.registry)
        )
        next_look = 0.0
        try:
            while not stopping.wait(1.0):
                self._controller.check_daemon_threads()
                if time.monotonic() > next_look:
                    self._complete_states(instance)
                    next_look = time.monotonic() + _COMPLETE_EVERY
        except Exception as error:
            raise RefreshError(f"Dagster's daemon ended by itself: {masked(error)}; its log says why") from error

    def _complete_states(self, instance: dg.DagsterInstance) -> None:
        try:
            completed = complete_states(instance)
        except (sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException) as error:
            # Looked at again in a while; whether the database answers is told elsewhere.
            self._echo(f"the states of schedules could not be looked at: {masked(error, self._env)}")
            return
        for name in completed:
            self._echo(f"the state of {name} was half written by a process that died; it is whole again")

    def hush(self, seconds: float) -> set[int]:
        """Let all threads of the daemon end; those that do not by themselves end at the fence.

        A run that was taken from the queue is launched first: nobody else would. Returns the threads in the midst of
        a launch, which takes as long as a process takes to start.
        """
        if self._workspace is not None:
            self._workspace.stop()
        self._ending = threading.Thread(target=self._stack.close, name="daemon's end", daemon=True)
        self._ending.start()
        deadline = time.monotonic() + seconds
        for thread in [thread for thread in threading.enumerate() if thread.name == _STARTS_RUNS]:
            while thread.is_alive() and thread.ident not in self._launches.threads and time.monotonic() < deadline:
                thread.join(_MOMENT)
        return set(self._launches.threads)

    def drain(self, seconds: float, stopping: Stopping) -> Sequence[str]:
        """Wait until the runs that were started from here have ended; name those that have not."""
        deadline = time.monotonic() + seconds
        left = self._running()
        if left:
            self._echo(f"waiting for {len(left)} running refresh(es), at most {seconds:g} s")
        while left and time.monotonic() < deadline and not stopping.hastened:
            time.sleep(_LOOK)
            left = self._running()
        return [f"{run.job_name}, run {run.run_id}, {run.status.value}" for run in left]

    def close(self) -> None:
        """Tell the code servers to end when their runs have, and let go of everything within some seconds."""
        if self._workspace is not None:
            closing = threading.Thread(target=self._workspace.close, name="workspace's end", daemon=True)
            closing.start()
            closing.join(_CLOSING)

    def _open_instance(self) -> dg.DagsterInstance:
        try:
            # Two that make Dagster's tables at the same moment can be in each other's way.
            with connect_register(self._env) as conn, conn.transaction():
                conn.execute(_REGISTER["dagster_lock"])
                return dg.DagsterInstance.get()
        except (sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException) as error:
            raise RefreshError(f"Dagster's storage cannot be had: {masked(error, self._env)}") from error

    def _running(self) -> list[dg.DagsterRun]:
        """Return the runs that go on in processes below the code servers of this process."""
        if self._instance is None or self._workspace is None:
            return []
        sockets = self._workspace.sockets()
        try:
            runs = self._instance.get_runs(dg.RunsFilter(statuses=_ACTIVE))
        except (sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException):
            return []
        return [run for run in runs if _socket_of(run) in sockets]


def _refuse_other_storage(instance: dg.DagsterInstance) -> None:
    """Look whether Dagster's storage is where the lease is. Raises RefusedError."""
    storage, found = instance.run_storage, False
    if isinstance(storage, PostgresRunStorage):
        with storage.connect() as conn:
            found = bool(conn.exec_driver_sql("SELECT to_regclass('refresh_daemon.term') IS NOT NULL").scalar())
    if not found:
        raise RefusedError(
            "the storage of the Dagster instance in DAGSTER_HOME is not in the database that the settings name, where "
            "the lease is, which then protects nothing. Let DAGSTER_POSTGRES_URL name that database, or unset "
            "DAGSTER_HOME for the project's own instance"
        )


def _socket_of(run: dg.DagsterRun) -> str | None:
    tag = run.tags.get(GRPC_INFO_TAG)
    if tag is None:
        return None
    info = json.loads(tag)
    return str(info.get("socket") or info.get("port"))

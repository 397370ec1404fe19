"""The code locations, loaded and kept fresh, in a standby too. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import dagster as dg
import psycopg
from dagster._core.remote_representation.grpc_server_registry import GrpcServerRegistry
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.controller import create_daemon_grpc_server_registry

from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.locations import Locations
from refresh_assets.daemon.timing import Timing
from refresh_assets.errors import RefreshError
from refresh_assets.secrets import masked

_LOOK = 2.0


class Workspace:
    """The code servers of this process and what they serve; a thread loads the code anew every so often."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        files: Sequence[Path],
        timing: Timing,
        locations: Locations,
        echo: Callable[[str], None],
    ) -> None:
        self._timing = timing
        self._locations = locations
        self._echo = echo
        self._leads = False
        self._trouble: Mapping[str, str] = {}
        self._done = threading.Event()
        self._stack = contextlib.ExitStack()
        self.registry: GrpcServerRegistry = self._stack.enter_context(
            create_daemon_grpc_server_registry(instance, code_server_log_level="WARNING")
        )
        self.context = self._stack.enter_context(
            WorkspaceProcessContext(
                instance=instance,
                workspace_load_target=WorkspaceFileTarget([str(file) for file in files]),
                grpc_server_registry=self.registry,
            )
        )
        self._loaded_at = elapsed()
        self._thread = threading.Thread(target=self._work, name="workspace", daemon=True)
        self._thread.start()

    def lead(self) -> None:
        """From now on load as often as a leader does, and tell a person of what does not load."""
        self._leads = True

    def stop(self) -> None:
        self._done.set()

    def close(self) -> None:
        """Let the code servers end as soon as they have no runs."""
        self.stop()
        self._stack.close()

    def sockets(self) -> set[str]:
        """Return how runs that were started from here name the code server they came from."""
        return {str(process.socket or process.port) for process in self.registry._all_processes}  # noqa: SLF001

    def _work(self) -> None:
        while not self._done.wait(_LOOK):
            self._refresh_if_due()
            if not self._leads:
                continue
            try:
                self._look()
            except (RefreshError, psycopg.Error) as error:
                self._echo(f"a code location that does not load could not be told: {masked(error)}")

    def _refresh_if_due(self) -> None:
        every = self._timing.refresh if self._leads else self._timing.standby_refresh
        if elapsed() - self._loaded_at < every:
            return
        self._loaded_at = elapsed()
        try:
            self.registry.clear_all_grpc_endpoints()  # type: ignore[no-untyped-call]
            self.context.refresh_workspace()
            self._trouble = {}
        except Exception as error:  # noqa: BLE001 - told like a location that does not load
            self._trouble = {"workspace": masked(error)}

    def _look(self) -> None:
        entries = self.context.create_request_context().get_code_location_entries()
        errors = {name: _words(entry.load_error) for name, entry in entries.items() if entry.load_error}
        loaded = {name for name, entry in entries.items() if entry.code_location}
        if not self._trouble:
            loaded.add("workspace")
        self._locations.look({**errors, **self._trouble}, loaded)


def _words(error: object) -> str:
    """Return what a person needs of Dagster's account of an error: the innermost cause."""
    while getattr(error, "cause", None) is not None:
        error = error.cause  # type: ignore[attr-defined]
    return str(getattr(error, "message", error)).strip()

"""The webserver, the daemon and the mail server below `up`, watched together with the embedded server."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING

from refresh_assets.errors import RefreshError
from refresh_assets.local.children import RESTARTS, Child, child_command, family
from refresh_assets.local.logs import BoundedLog
from refresh_assets.local.processes import end, marked
from refresh_assets.local.progress import progress
from refresh_assets.ports import LOCALHOST, first_free
from refresh_assets.postgres import embedded
from refresh_assets.postgres.cluster import postmaster

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psutil

    from refresh_assets.local.house import House
    from refresh_assets.local.mailbox import Mailbox

FIRST_PORT = 3000
PORTS = 200
UI_SECONDS = 180.0
PATIENCE = 15.0
_STEP = 0.5


class Serving:
    """The children, from their start to the moment when nothing of them is left."""

    def __init__(self, house: House, env: Mapping[str, str], port: int | None, mailbox: Mailbox | None) -> None:
        self._house = house
        self._server_deaths = 0
        self.port = _port(house, FIRST_PORT if port is None else port)
        folder = env["DAGSTER_HOME"]
        env = {**env, "DAGSTER_UI_URL": env.get("DAGSTER_UI_URL", "").strip() or self.ui}
        self._webserver = self._child("webserver", env, folder, str(self.port))
        self._children = [self._webserver, self._child("daemon", env, folder)]
        if mailbox is not None:
            self._children.append(self._child("mail", env, str(mailbox.folder), str(mailbox.port)))

    @property
    def ui(self) -> str:
        return f"http://{LOCALHOST}:{self.port}"

    def start(self) -> None:
        for child in self._children:
            child.start()

    def wait_for_ui(self) -> None:
        """Return when the UI answers, or when the end is wished for. Raises RefreshError where it does not come."""
        deadline = time.monotonic() + UI_SECONDS
        with progress(self._house.echo, "starting the UI and the daemon"):
            while not self._house.stopping.wait(_STEP):
                self._check_children()
                if self._webserver.exit_code is None and _answers(self.port):
                    return
                if time.monotonic() > deadline:
                    log = self._webserver.log
                    raise RefreshError(
                        f"time-out: the UI does not answer at {self.ui} after {UI_SECONDS:g} seconds; "
                        f"the end of {log.path}:\n{log.tail()}"
                    )

    def watch(self, server: embedded.EmbeddedServer | None) -> None:
        """Start again what dies, until the end is wished for. Raises RefreshError where something dies too often."""
        while not self._house.stopping.wait(_STEP):
            if server is not None and postmaster(server.data) is None:
                self._restart(server)
            self._check_children()

    def stop(self, keeper: int) -> None:
        """End every process of this home except that keeper; raises RefreshError where one is left."""

        def left() -> list[psutil.Process]:
            found = {*marked(self._house.home), *family(self._children)}
            return [process for process in found if process.pid != keeper]

        done = end(left, PATIENCE, lambda: self._house.stopping.hastened)
        for child in self._children:
            child.close()
        if not done:
            raise RefreshError("these processes did not end: " + ", ".join(str(process.pid) for process in left()))

    def log_files(self) -> list[str]:
        return [str(child.log.path) for child in self._children]

    def _child(self, kind: str, env: Mapping[str, str], *arguments: str) -> Child:
        return Child(kind, child_command(kind, *arguments), env, BoundedLog(self._house.logs / f"{kind}.log"))

    def _check_children(self) -> None:
        for child in self._children:
            told = child.check()
            if told is not None:
                self._house.echo(told)

    def _restart(self, server: embedded.EmbeddedServer) -> None:
        self._server_deaths += 1
        if self._server_deaths > RESTARTS:
            raise RefreshError(f"the database ended by itself {self._server_deaths} times; its log is {server.log}")
        self._house.echo(f"the database ended by itself and is started again; its log is {server.log}")
        again = embedded.start(self._house.home)
        if again.port != server.port:
            raise RefreshError(f"the database's port {server.port} was taken by another program; start `up` again")


def _port(house: House, wanted: int) -> int:
    port = first_free(range(wanted, min(wanted + PORTS, 65536)))
    if port is None:
        raise RefreshError(
            f"no port from {wanted} to {wanted + PORTS - 1} is free for the UI; name another with --port"
        )
    if port != wanted:
        house.echo(f"port {wanted} is taken: the UI gets {port}")
    return port


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOCALHOST, port, timeout=5)
    try:
        connection.request("GET", "/server_info")
        body = connection.getresponse().read(10_000)
        return "dagster_webserver_version" in json.loads(body)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()

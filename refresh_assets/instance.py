"""The folder of the Dagster instance: the project's dagster.yaml and workspace.yaml, where DAGSTER_HOME points."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from refresh_assets.errors import RefreshError

CONFIGURATION = ("dagster.yaml", "workspace.yaml")


def prepare_home(home: Path) -> Path:
    """Write the project's configuration into `home`/dagster and return that folder, to be DAGSTER_HOME.

    Raises RefreshError that names REFRESH_HOME where the folder cannot be written.
    """
    folder = home / "dagster"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in CONFIGURATION:
            _write_if_other(folder / name, _configuration(name))
    except OSError as error:
        raise RefreshError(
            f"the folder {folder} cannot be written ({error.strerror}); set REFRESH_HOME to one that can"
        ) from error
    return folder


def _configuration(name: str) -> str:
    """Return a file of the top level: from the checkout, or from the copy that an installed package carries."""
    package = files("refresh_assets")
    packaged = package / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(str(package)).parent / name).read_text(encoding="utf-8")


def _write_if_other(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)

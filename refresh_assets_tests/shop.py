"""A publisher's folder for the declared tables, and refreshes of it by the command line or in this process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets_tests.published_fixtures import csv_text

HEADER = ("dataset_key", "title", "publisher", "doi", "license")
RIGHTS_HEADER = ("dataset_key", "organization_key", "occurrences", "rights", "standard_license")
Rows = list[tuple[str, ...]]


def dataset_rows(count: int, *, free: int = 0) -> Rows:
    """Return rows of datasets.csv: the first `free` under CC0, the others under CC BY."""
    return [
        (
            str(uuid.uuid5(uuid.NAMESPACE_URL, f"dataset {n}")),
            f"Dataset {n}",
            "Museum",
            "",
            "CC0 1.0" if n < free else "CC BY 4.0",
        )
        for n in range(count)
    ]


def rights_rows(count: int) -> Rows:
    """Return rows of dataset_rights.csv."""
    return [(str(uuid.uuid5(uuid.NAMESPACE_URL, f"rights {n}")), "", str(n), "free", "") for n in range(count)]


@dataclass
class Shop:
    """A published folder and an environment with all settings, and nothing else, for one database."""

    folder: Path
    env: dict[str, str]
    admin: psycopg.Connection[Any]
    manifest: dict[str, dict[str, Any]] = field(default_factory=dict)

    def publish(self, rows: Sequence[Sequence[str]], *, promised: int | None = None) -> None:
        """Publish datasets.csv; `promised` is the manifest's number of rows, the true one if not given."""
        self.publish_file("datasets.csv", csv_text(rows, HEADER), len(rows) if promised is None else promised)

    def publish_file(self, name: str, content: str, rows: int) -> None:
        data = self.folder / "learn" / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(content, encoding="utf-8")
        self.manifest[name] = {"sha256": hashlib.sha256(content.encode()).hexdigest(), "rows": rows}
        (data / "manifest.json").write_text(json.dumps({"files": self.manifest}), encoding="utf-8")

    def start(self, *args: str, **env: str | None) -> subprocess.Popen[str]:
        """Start the command line with the settings alone; a setting given as None is left out."""
        merged = {name: value for name, value in {**self.env, **env}.items() if value is not None}
        return subprocess.Popen(
            [sys.executable, "-m", "refresh_assets.cli", *args],
            env=merged,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *args: str, **env: str | None) -> tuple[int, str, str]:
        """Run a command to its end; return exit status, standard output and standard error."""
        process = self.start(*args, **env)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def refresh(self, *args: str, **env: str | None) -> dict[str, Any]:
        """Refresh datasets by the command line; return its JSON object with the exit status as `exit`."""
        code, out, err = self.run("run", "--table", "datasets", "--json", *args, **env)
        assert out.count("\n") == 1, (out, err)
        return {**json.loads(out), "exit": code}

    def rows(self, query: str = "SELECT * FROM etl.datasets ORDER BY 1") -> list[tuple[Any, ...]]:
        return self.admin.execute(query).fetchall()


@pytest.fixture
def shop(database: dict[str, str], tmp_path: Path) -> Iterator[Shop]:
    with new_shop(database, tmp_path) as shop:
        yield shop


@contextlib.contextmanager
def new_shop(database: dict[str, str], tmp_path: Path) -> Iterator[Shop]:
    """Open a shop whose tables are to be in this database."""
    home = tmp_path / "home"
    folder = tmp_path / "published files"
    folder.mkdir()
    env = {
        **database,
        "LEARN_BASE": folder.as_uri(),
        "REFRESH_HOME": str(home),
        # Coverage of Windows and of macOS's temporary folders aside, a process needs no more than its settings.
        **({"SYSTEMROOT": os.environ["SYSTEMROOT"]} if "SYSTEMROOT" in os.environ else {}),
    }
    with connect(read_postgres(env), "test admin") as admin:
        yield Shop(folder, env, admin)


@pytest.fixture
def shop_here(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return enter(shop, monkeypatch)


def enter(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return the shop with its settings in this process's environment."""
    for name in ("PGPASSFILE", "DAGSTER_HOME", "DAGSTER_POSTGRES_URL", "REFRESH_LICENSES", "REFRESH_SCHEMA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in shop.env.items():
        monkeypatch.setenv(name, value)
    return shop

"""A real Postgres server for the whole test session, and a database of its own for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from refresh_assets.postgres import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """Return a folder that every account may enter; pytest's own are closed to the one that serves root."""
    folder = Path(tempfile.mkdtemp(prefix="refresh-tests-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(open_folder: Path) -> Iterator[embedded.EmbeddedServer]:
    """Return an embedded server that is stopped at the end of the session; it does not sync to the disk."""
    settings = {"fsync": "off", "max_connections": "200"}
    server = embedded.start(open_folder / "session", settings=settings)
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def database(postgres_server: embedded.EmbeddedServer) -> Iterator[dict[str, str]]:
    """Return PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE of a new, empty database, dropped after the test."""
    name = f"test_{os.getpid()}_{uuid.uuid4().hex[:12]}"
    server = {
        "PGHOST": postgres_server.host,
        "PGPORT": str(postgres_server.port),
        "PGUSER": postgres_server.user,
        "PGPASSWORD": postgres_server.password(),
    }
    _administer(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield {**server, "PGDATABASE": name}
    _administer(server, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(server: dict[str, str], statement: sql.Composed) -> None:
    with psycopg.connect(
        host=server["PGHOST"],
        port=server["PGPORT"],
        user=server["PGUSER"],
        password=server["PGPASSWORD"],
        dbname="postgres",
        autocommit=True,
        connect_timeout=30,
    ) as connection:
        connection.execute(statement)

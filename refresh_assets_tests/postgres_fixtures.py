"""A real Postgres server for the whole test session, and a database of its own for each test.

Another server, of another version, takes the embedded one's place for the databases of tests where REFRESH_TEST_SERVER
names it: "host=127.0.0.1 port=5432 user=postgres password=…".
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from refresh_assets.postgres import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of this database alone: others may test on the same server.
LOCKS_HELD = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
    "WHERE datname = current_database() AND locktype = 'advisory'"
)


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
    with new_database(postgres_server) as settings:
        yield settings


@contextlib.contextmanager
def new_database(postgres_server: embedded.EmbeddedServer, template: str = "template1") -> Iterator[dict[str, str]]:
    """Create such a database, or a copy of another one, and drop it at the end."""
    name = f"test_{os.getpid()}_{uuid.uuid4().hex[:12]}"
    server = server_settings(postgres_server)
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    _administer(server, create)
    yield {**server, "PGDATABASE": name}
    _administer(server, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def server_settings(embedded_server: embedded.EmbeddedServer) -> dict[str, str]:
    """Return PGHOST, PGPORT, PGUSER and PGPASSWORD of the server that the tests' databases are on."""
    other = conninfo_to_dict(os.environ.get("REFRESH_TEST_SERVER", ""))
    if other:
        return {f"PG{name.upper()}": str(other[name]) for name in ("host", "port", "user", "password")}
    return {
        "PGHOST": embedded_server.host,
        "PGPORT": str(embedded_server.port),
        "PGUSER": embedded_server.user,
        "PGPASSWORD": embedded_server.password(),
    }


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

"""Which database `up` uses: the team's where PG* settings name one, else the embedded server's."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import refresh_assets
from refresh_assets.ports import LOCALHOST
from refresh_assets.postgres import embedded
from refresh_assets.postgres.binaries import bundled
from refresh_assets.postgres.cluster import ROLE
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import has_postgres_settings, read_settings
from refresh_assets.windows.sample import sample_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

# Stand in for a server that is not started yet, while the other settings are checked.
_PLACEHOLDERS = {
    "PGHOST": LOCALHOST,
    "PGPORT": "1",
    "PGUSER": ROLE,
    "PGDATABASE": embedded.DATABASE,
    "PGPASSWORD": "-",
}


@dataclass(frozen=True)
class Database:
    """The environment that points at the database, and the server where it was started here."""

    environment: dict[str, str]
    server: embedded.EmbeddedServer | None

    def described(self) -> str:
        """Return host, port and database in one line, with whose server it is."""
        env = self.environment
        whose = "started here" if self.server else "yours"
        return f"{env['PGDATABASE']} on {env['PGHOST']}:{env['PGPORT']} as {env['PGUSER']} ({whose})"

    def psql_line(self) -> str:
        """Return a command line that opens the database; it names the password file and holds no password."""
        env = self.environment
        words = [_psql(self.server), "-h", env["PGHOST"], "-p", env["PGPORT"], "-U", env["PGUSER"], env["PGDATABASE"]]
        passfile = env.get("PGPASSFILE")
        if sys.platform == "win32":
            quoted = " ".join(f'"{word}"' for word in words)
            return f'set "PGPASSFILE={passfile}" && {quoted}' if passfile else quoted
        return (f"PGPASSFILE={shlex.quote(passfile)} " if passfile else "") + shlex.join(words)


def is_yours(env: Mapping[str, str]) -> bool:
    return has_postgres_settings(env)


def check_settings(env: Mapping[str, str]) -> None:
    """Check every setting before anything starts, and a database of the team's by a connection. Raises RefreshError."""
    if not is_yours(env):
        read_settings({**without_postgres(env), **_PLACEHOLDERS})
        return
    connect(read_settings(env).postgres, "refresh-assets up").close()


def open_database(env: Mapping[str, str], home: Path) -> Database:
    """Return the team's database, or the embedded server's, started where it does not run. Raises RefreshError.

    The bundled files are the source only of an embedded server, and only where LEARN_BASE names no other; so is the
    generated event log, where WINDOW_SOURCE names no other.
    """
    if is_yours(env):
        return Database(dict(env), None)
    server = embedded.start(home)
    bundled_sources = {"LEARN_BASE": published_files().as_uri()}
    if not env.get("WINDOW_SOURCE", "").strip():
        bundled_sources |= sample_settings(home)
    unset = {name: value for name, value in bundled_sources.items() if not env.get(name, "").strip()}
    return Database({**without_postgres(env), **unset, **server.environment()}, server)


def published_files() -> Path:
    """Return the folder of the bundled files, which is laid out as a publisher's is."""
    return Path(refresh_assets.__file__).resolve().parent / "published_files"


def without_postgres(env: Mapping[str, str]) -> dict[str, str]:
    """Leave out all that steers libpq: a password or a TLS mode for another server would be used for ours."""
    return {name: value for name, value in env.items() if not name.startswith("PG")}


def _psql(server: embedded.EmbeddedServer | None) -> str:
    if server is not None:
        return str(server.psql)
    # The bundled one cannot speak TLS, which a server of the team's may ask for.
    return shutil.which("psql") or str(bundled().program("psql"))

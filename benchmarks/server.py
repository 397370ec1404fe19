"""The database that a benchmark uses: the one of the PG* settings, else an embedded server of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from refresh_assets.postgres import embedded
from refresh_assets.settings import has_postgres_settings

# As Postgres comes, but for checkpoints: they come when a benchmark asks for one, so that no load pays for another's.
SETTINGS = {"max_wal_size": "16GB", "checkpoint_timeout": "1h"}


@contextlib.contextmanager
def database() -> Iterator[None]:
    """Let the environment name the database; an embedded server and all its files go at the end."""
    if has_postgres_settings(os.environ):
        print(f"server: {os.environ.get('PGHOST')}, as the PG* settings say; its checkpoints come when they come")
        yield
        return
    with folder() as home:
        server = embedded.start(home, settings=SETTINGS)
        print(f"server: embedded, in {home}, with {', '.join(f'{name} {value}' for name, value in SETTINGS.items())}")
        try:
            for name in [name for name in os.environ if name.startswith("PG")]:
                del os.environ[name]
            os.environ.update(server.environment())
            os.environ["REFRESH_HOME"] = str(home)
            yield
        finally:
            server.stop()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yield a temporary folder that the account of the embedded server may enter."""
    with tempfile.TemporaryDirectory(prefix="refresh-benchmark-", ignore_cleanup_errors=True) as name:
        path = Path(name).resolve()
        path.chmod(0o755)
        yield path

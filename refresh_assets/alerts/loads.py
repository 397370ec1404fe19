"""What the declared tables hold, by the history of their loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import psycopg

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import connect, limit
from refresh_assets.published.table.history import PastLoad, last_load
from refresh_assets.settings import Env, read_settings

LOCK_SECONDS, STATEMENT_SECONDS = 3.0, 5.0


@dataclass(frozen=True)
class LastLoad:
    """When a table was last loaded, and the number of rows that it was left with."""

    loaded_at: datetime
    rows: int


def last_loads(files: Mapping[str, str], env: Env = os.environ) -> dict[str, LastLoad] | None:
    """Return the last load of each table that was ever loaded; `files` are the published files by table.

    None where the database does not say: a mail on a failure must not fail itself.
    """
    found: dict[str, PastLoad | None] = {}
    try:
        settings = read_settings(env)
        with connect(settings.postgres, "refresh-assets alerts") as conn:
            limit(conn, lock_seconds=LOCK_SECONDS, statement_seconds=STATEMENT_SECONDS, session=True)
            found = {table: last_load(conn, settings.schema, file) for table, file in files.items()}
    except psycopg.errors.UndefinedTable:
        # Without a history there was no load.
        pass
    except (RefreshError, psycopg.Error):
        return None
    return {table: LastLoad(load.loaded_at, load.fingerprint.rows) for table, load in found.items() if load}

"""The statements on the tables of requests: which schema they are in, and the pieces that several of them share."""

from __future__ import annotations

import os

from psycopg import sql

from refresh_assets.postgres.queries import queries
from refresh_assets.requests.settings import read_requests

_PIECES = queries("refresh_assets.requests", "sql/pieces.sql")


def completed(statement: sql.SQL, schema: str | None = None) -> sql.Composed:
    """Return a statement for a schema, that of the settings if None. Raises SettingsError."""
    return statement.format(
        schema=sql.Identifier(schema or read_requests(os.environ).schema),
        next_version=_PIECES["next_version"],
        failures=_PIECES["failures"],
        silence=_PIECES["silence"],
    )

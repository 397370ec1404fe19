"""Dagster's own storage on the team's database. Upper floor: this module imports dagster.

One class for dagster.yaml, because the stock one takes its password from a URL or from one environment variable: here
libpq takes it from PGPASSWORD or the password file, as for every other connection, and no URL holds it.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import psycopg
import sqlalchemy.exc
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage
from psycopg import sql
from sqlalchemy.engine import make_url

from refresh_assets.postgres.connect import CONNECT_SECONDS, connect
from refresh_assets.settings import SettingsError, read_postgres

SCHEMA = "dagster"


class PostgresStorage(DagsterPostgresStorage):
    """Runs, events and schedules in the schema `dagster` of PGDATABASE, or where DAGSTER_POSTGRES_URL says."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> PostgresStorage:  # noqa: ARG003
        """Build the storage from the settings; raises SettingsError that names the missing ones."""
        return cls(postgres_url=storage_url(), inst_data=inst_data)


def storage_url() -> str:
    """Return the SQLAlchemy URL of Dagster's storage, after its schema is made.

    It holds a password only where DAGSTER_POSTGRES_URL does. Raises SettingsError, and RefreshError where the database
    cannot be reached.
    """
    other = os.environ.get("DAGSTER_POSTGRES_URL", "").strip()
    if other:
        try:
            # SQLAlchemy 2.1 takes psycopg 3 for a bare postgresql URL, which dagster-postgres does not work with.
            return make_url(other).set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
        except (sqlalchemy.exc.ArgumentError, ValueError):
            raise SettingsError("DAGSTER_POSTGRES_URL is not a database URL") from None
    settings = read_postgres()
    with connect(settings, "refresh-assets storage") as conn:
        row = conn.execute("SELECT to_regnamespace(%s) IS NULL", (SCHEMA,)).fetchone()
        if row and row[0]:
            _create_schema(conn)
    # Host, port, user, database and password reach libpq through the environment.
    options = quote(f"-csearch_path={SCHEMA}")
    return f"postgresql+psycopg2:///?options={options}&connect_timeout={CONNECT_SECONDS}"


def _create_schema(conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        # IF NOT EXISTS alone can still fail when two do it at once.
        conn.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:create:' || %s))", (SCHEMA,))
        conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))

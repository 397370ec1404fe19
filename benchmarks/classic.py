"""The classic way to refresh a table: read the file whole, stage it, empty the table, fill it again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import sql

if TYPE_CHECKING:
    import psycopg

TABLE = """
CREATE TABLE {} (
    dataset_key uuid PRIMARY KEY, title text NOT NULL, publisher text NOT NULL, doi text, license text NOT NULL
)
"""


def load(conn: psycopg.Connection[Any], path: Path, sha256: str, rows: int, target: sql.Identifier) -> None:
    """Replace the rows of the target in one transaction on `conn`; raises ValueError where the file is not as promised.

    No other check is made, which is what makes it fast; readers wait from TRUNCATE to the commit.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} does not have the sha256 of the manifest")
    with conn.transaction():
        conn.execute(sql.SQL("CREATE TEMPORARY TABLE stage (LIKE {}) ON COMMIT DROP").format(target))
        with conn.cursor() as cursor:
            with cursor.copy("COPY stage FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(content)
            staged = cursor.rowcount
        if staged != rows:
            raise ValueError(f"staged {staged} rows; the manifest says {rows}")
        conn.execute(sql.SQL("TRUNCATE {}").format(target))
        conn.execute(
            sql.SQL("INSERT INTO {} SELECT * FROM stage WHERE license IN ('CC0 1.0', 'CC BY 4.0')").format(target)
        )

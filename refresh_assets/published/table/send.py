"""The file's bytes sent to the server as they were hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import BinaryIO

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.load import Load

BLOCK_BYTES = 1 << 18
_STAGE = queries("refresh_assets.published.table", "sql/stage.sql")


class CopyFailedError(Exception):
    """The server refused a row of the file for the table `into`; `cause` is its error. Told to people by `explain`."""

    def __init__(self, cause: psycopg.Error, into: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.into = into


def copy_file(conn: Connection, load: Load, into: tuple[str, str], progress: Callable[[int], None]) -> None:
    """Send the file's rows into a table made in this transaction.

    `into` is the table's schema and name. Raises CopyFailedError where the server does not take a row, RefreshError
    where the file is not what was hashed or has another number of rows than its manifest promises.
    """
    statement = _STAGE["copy"].format(table=sql.Identifier(*into), columns=compose.names(load.header))
    try:
        with load.path.open("rb") as file, conn.cursor() as cursor:
            with cursor.copy(statement) as copy:
                _send(file, copy, load, progress)
            staged = cursor.rowcount
    except OSError as error:
        raise RefreshError(
            f"{load.table.file}: {load.path} can no longer be read ({error.strerror}); run again to fetch it anew"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise CopyFailedError(error, into[1]) from error
    if staged != load.rows:
        raise RefreshError(f"staged {staged} rows; the manifest says {load.rows}")


def _send(file: BinaryIO, copy: psycopg.Copy, load: Load, progress: Callable[[int], None]) -> None:
    """Send what follows the header. Raises RefreshError, cancelling the COPY, where the bytes are other ones."""
    seen = hashlib.sha256(file.read(load.layout.data_offset))
    sent = 0
    while block := file.read(BLOCK_BYTES):
        seen.update(block)
        copy.write(block)
        sent += len(block)
        progress(sent)
    if seen.hexdigest() != load.sha256:
        raise RefreshError(
            f"{load.table.file}: the downloaded file at {load.path} was changed after it was verified "
            f"(sha256 {seen.hexdigest()}, verified as {load.sha256}); delete it and run again"
        )

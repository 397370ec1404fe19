"""The file's bytes sent to the server as they were hashed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
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


class Sending:
    """A file on its way to the server, whole or chunk by chunk, hashed as it is sent."""

    def __init__(self, conn: Connection, load: Load, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._conn = conn
        self._load = load
        self._file = file
        self._progress = progress
        self._seen = hashlib.sha256(file.read(load.layout.data_offset))
        self._sent = self._rows = 0

    def copy(self, into: tuple[str, str], end: int | None = None) -> int:
        """Send the next rows into a table made or emptied in this transaction; return their number.

        `into` is the table's schema and name, `end` the byte of the file at which another row begins, None for all that
        is left. Raises CopyFailedError where the server does not take a row, RefreshError where the file, sent to its
        end, is not what was hashed or has another number of rows than its manifest promises.
        """
        statement = _STAGE["copy"].format(table=sql.Identifier(*into), columns=compose.names(self._load.header))
        try:
            with self._conn.cursor() as cursor:
                with cursor.copy(statement) as copy:
                    self._send(copy, end)
                rows = cursor.rowcount
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise CopyFailedError(error, into[1]) from error
        self._rows += rows
        if end is None and self._rows != self._load.rows:
            raise RefreshError(f"staged {self._rows} rows; the manifest says {self._load.rows}")
        return rows

    def _send(self, copy: psycopg.Copy, end: int | None) -> None:
        """Send up to a byte of the file. Raises RefreshError, cancelling the COPY, where all bytes are other ones."""
        start = self._load.layout.data_offset
        while block := self._file.read(BLOCK_BYTES if end is None else min(BLOCK_BYTES, end - start - self._sent)):
            self._seen.update(block)
            copy.write(block)
            self._sent += len(block)
            self._progress(self._sent)
        if end is None and self._seen.hexdigest() != self._load.sha256:
            raise RefreshError(
                f"{self._load.table.file}: the downloaded file at {self._load.path} was changed after it was verified "
                f"(sha256 {self._seen.hexdigest()}, verified as {self._load.sha256}); delete it and run again"
            )


@contextlib.contextmanager
def sending(conn: Connection, load: Load, progress: Callable[[int], None]) -> Iterator[Sending]:
    """Open the file to be sent; `progress` is given the bytes sent so far. Raises RefreshError where it is gone."""
    try:
        with load.path.open("rb") as file:
            yield Sending(conn, load, file, progress)
    except OSError as error:
        raise RefreshError(
            f"{load.table.file}: {load.path} can no longer be read ({error.strerror}); run again to fetch it anew"
        ) from error


def copy_file(conn: Connection, load: Load, into: tuple[str, str], progress: Callable[[int], None]) -> None:
    """Send the whole file into a table made in this transaction; raises what `Sending.copy` raises."""
    with sending(conn, load, progress) as file:
        file.copy(into)

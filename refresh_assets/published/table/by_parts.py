"""A large file taken in piece by piece: each is staged, compared with its part of the table, and forgotten.

So neither the stage nor what is compared leaves the server's memory, whatever the size of the file. No row of the table
is changed before the whole file was looked at; only an empty table is filled meanwhile, which no one sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.delta import PartwiseComparison
from refresh_assets.published.table.guards import ShrinkRefusedError
from refresh_assets.published.table.keep import VALUES_COUNTED, Kept, count_kept, seems_to_leave_out, together
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.parts import ALL_PAGES, Piece, can_be_read_in_parts, count_pages, pieces_of
from refresh_assets.published.table.send import CopyFailedError, sending
from refresh_assets.published.table.stage import TABLE, PartOnlyError, Source, create_stage, empty_stage
from refresh_assets.published.table.target import Taken, Target

_SESSION = queries("refresh_assets.postgres", "session.sql")


@dataclass(frozen=True)
class Watch:
    """What a replace does meanwhile.

    `check` refuses, by ShrinkRefusedError, to keep so much over so many rows; `progress` is given the bytes sent so
    far, `ended` the name of a phase at its end.
    """

    check: Callable[[Kept, int], None]
    progress: Callable[[int], None]
    ended: Callable[[str], None]


def take_by_parts(conn: Connection, load: Load, target: Target, watch: Watch) -> Taken | None:
    """Make a table that is there equal to the file; None, and nothing is done, where the whole file must be staged.

    It must where the file is small, where rows are left out or made by expressions, where the table has no unique key
    or stores something else than it is sent, where the two are not in one order, and where a row or a key is not sound:
    whoever stages the whole file tells its line. Other writers wait from the first row on. Raises RefreshError.
    """
    if not load.layout.cuts or load.table.transformed or not can_be_read_in_parts(conn):
        return None
    if len(load.allowed or ()) > VALUES_COUNTED or seems_to_leave_out(load):
        return None
    pieces = pieces_of(load.layout, count_pages(conn, target.name))
    if len(pieces) == 1:
        return None
    with conn.transaction() as attempt:
        try:
            return _Parts(conn, load, target, pieces, watch).take()
        except (PartOnlyError, CopyFailedError, ShrinkRefusedError) as error:
            raise psycopg.Rollback(attempt) from error
    return None


@dataclass(frozen=True)
class _Parts:
    """One attempt, inside its savepoint. PartOnlyError: what was begun must be done with the whole file."""

    conn: Connection
    load: Load
    target: Target
    pieces: Sequence[Piece]
    watch: Watch

    def take(self) -> Taken:
        self.target.lock()
        rows_before = self.target.count()
        promised = Kept(self.load.rows, ())
        self.watch.check(promised, rows_before)
        if not self.target.shows_repeated_keys():
            raise PartOnlyError
        create_stage(self.conn, self.load, max(piece.size for piece in self.pieces))
        source = Source(TABLE, compose.TRUE, promised, key_checked=False, whole=False)
        if not self.target.stores_what_is_sent(source):
            raise PartOnlyError
        self.conn.execute(_SESSION["sort_memory"])
        with self.target.taking_rows():
            return self._replace(source, rows_before) if rows_before else self._fill(source)

    def _replace(self, source: Source, rows_before: int) -> Taken:
        comparison = PartwiseComparison(self.conn, self.target.delta_pieces(source))
        seen: list[Kept] = []
        for piece, kept in self._staged():
            seen.append(kept)
            comparison.compare(source.keep, piece.pages)
            if not comparison.in_one_order(sum(part.rows for part in seen)):
                raise PartOnlyError
            self.watch.ended("compare")
        comparison.finish()
        changes = self.target.apply_delta(source, rows_before, lambda: self.watch.ended("compare"))
        return Taken(together(seen), changes, rows_before)

    def _fill(self, source: Source) -> Taken:
        seen: list[Kept] = []
        for _piece, kept in self._staged():
            seen.append(kept)
            try:
                self.target.insert_part(source, ALL_PAGES)
            except errors.UniqueViolation as error:
                raise PartOnlyError from error
            self.watch.ended("apply")
        kept = together(seen)
        return Taken(kept, self.target.filled(kept.rows), 0)

    def _staged(self) -> Iterator[tuple[Piece, Kept]]:
        """Let one piece after the other stand on the stage, alone."""
        with sending(self.conn, self.load, self.watch.progress) as file:
            for piece in self.pieces:
                rows = file.copy(("pg_temp", TABLE), piece.end)
                kept = count_kept(self.conn, self.load, sql.Identifier("pg_temp", TABLE), rows)
                if kept.rows != rows:
                    raise PartOnlyError
                self.watch.ended("stage")
                yield piece, kept
                empty_stage(self.conn)

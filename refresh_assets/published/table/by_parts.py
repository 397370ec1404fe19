"""A large file taken in piece by piece: each is staged, compared with its part of the table, and forgotten.

So neither the stage nor what is compared leaves the server's memory, whatever the size of the file. No row of the table
is changed before the whole file was looked at; only an empty table is filled meanwhile, which no one sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from psycopg import errors, sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table import compose
from refresh_assets.published.table.delta import PartwiseComparison
from refresh_assets.published.table.guards import ShrinkRefusedError
from refresh_assets.published.table.keep import Kept
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.parts import ALL_PAGES, Piece, can_be_read_in_parts, count_pages, pieces_of
from refresh_assets.published.table.piecewise import Piecewise
from refresh_assets.published.table.send import CopyFailedError, sending
from refresh_assets.published.table.stage import TABLE, PartOnlyError, Source, create_stage, empty_stage
from refresh_assets.published.table.target import Changes, Taken, Target

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


def take_by_parts(conn: Connection, load: Load, target: Target, watch: Watch, *, new: bool) -> Taken | None:
    """Make the table equal to the file; None, and nothing is done, where the whole file must be staged.

    `new` tells that the table was just created, and has no key yet.

    It must where the file is small, where columns are made by expressions, where the table has no unique key or stores
    something else than it is sent, where the two are not in one order, and where a row or a key is not sound: whoever
    stages the whole file tells its line. Other writers wait from the first row on. Raises RefreshError.
    """
    if not load.layout.cuts or load.table.transformed or not can_be_read_in_parts(conn):
        return None
    pieces = pieces_of(load.layout, count_pages(conn, target.name))
    if len(pieces) == 1:
        return None
    with conn.transaction() as attempt:
        try:
            return _Parts(conn, load, target, pieces, watch, new).take()
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
    new: bool

    def take(self) -> Taken:
        self.target.lock()
        rows_before = self.target.count()
        # More than all cannot be kept.
        most = Kept(self.load.rows, ())
        self.watch.check(most, rows_before)
        if not self.new and not self.target.shows_repeated_keys():
            raise PartOnlyError
        create_stage(self.conn, self.load, max(piece.size for piece in self.pieces))
        source = Source(TABLE, compose.TRUE, most, key_checked=False, whole=False)
        if not self.target.stores_what_is_sent(source):
            raise PartOnlyError
        self.conn.execute(_SESSION["sort_memory"])
        known = Piecewise(self.conn, self.load)
        with self.target.taking_rows():
            kept, changes = (self._replace if rows_before else self._fill)(source, known, rows_before)
        known.check_left_out(self.target.name)
        return Taken(kept, changes, rows_before)

    def _replace(self, source: Source, known: Piecewise, rows_before: int) -> tuple[Kept, Changes]:
        comparison = PartwiseComparison(self.conn, self.target.delta_pieces(source))
        for piece, keep in self._staged(known):
            comparison.compare(keep, piece.pages)
            if not comparison.in_one_order(known.rows, self.load.rows):
                raise PartOnlyError
            self.watch.ended("compare")
        comparison.finish()
        kept = known.total()
        self.watch.check(kept, rows_before)
        ended = partial(self.watch.ended, "compare")
        return kept, self.target.apply_delta(replace(source, kept=kept), rows_before, ended)

    def _fill(self, source: Source, known: Piecewise, rows_before: int) -> tuple[Kept, Changes]:
        try:
            for _piece, keep in self._staged(known):
                part = replace(source, keep=keep)
                self.target.insert_new(part) if self.new else self.target.insert_part(part, ALL_PAGES)
                self.watch.ended("apply")
            if self.new:
                self.target.add_key()
        except errors.UniqueViolation as error:
            raise PartOnlyError from error
        kept = known.total()
        self.watch.check(kept, rows_before)
        return kept, self.target.filled(kept.rows)

    def _staged(self, known: Piecewise) -> Iterator[tuple[Piece, sql.Composable]]:
        """Let one piece after the other stand on the stage, alone; yield it and the condition that keeps its rows."""
        with sending(self.conn, self.load, self.watch.progress) as file:
            for piece in self.pieces:
                keep = known.add(file.copy(("pg_temp", TABLE), piece.end))
                self.watch.ended("stage")
                yield piece, keep
                empty_stage(self.conn)

"""A large file taken chunk by chunk: each is staged, compared with its part of the table, and forgotten.

So neither the stage nor what is compared leaves the server's memory, about, whatever the size of the file. No row of
the table is changed before the whole file was looked at; only an empty table is filled meanwhile, which no one sees.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from psycopg import errors, sql

from refresh_assets.postgres.connect import Connection, ask_for_memory
from refresh_assets.published.table import compose
from refresh_assets.published.table.chunk_totals import ChunkTotals
from refresh_assets.published.table.chunks import Chunk, chunks_of, is_one_part
from refresh_assets.published.table.delta import PartwiseComparison
from refresh_assets.published.table.guards import ShrinkRefusedError
from refresh_assets.published.table.keep import Kept
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.parts import ALL_PAGES, PART_BYTES, can_be_read_in_parts, count_pages
from refresh_assets.published.table.send import CopyFailedError, sending
from refresh_assets.published.table.stage import TABLE, Source, WholeFileNeededError, create_stage, empty_stage
from refresh_assets.published.table.target import Changes, Taken, Target

_Staged = tuple[Chunk, sql.Composable]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Callbacks:
    """What a replace does meanwhile.

    `check_shrink` refuses, by ShrinkRefusedError, to keep so much over so many rows; `progress` is given the bytes sent
    so far, `ended` the name of a phase at its end.
    """

    check_shrink: Callable[[Kept, int], None]
    progress: Callable[[int], None]
    ended: Callable[[str], None]


def take_by_chunks(conn: Connection, load: Load, target: Target, callbacks: Callbacks, *, new: bool) -> Taken | None:
    """Make the table equal to the file; None, and nothing is done, where the whole file must be staged.

    `new` tells that the table was just created, and has no key yet. The whole file must be staged where it is small,
    where columns are made by expressions, where the table is partitioned, has no unique key or stores something else
    than it is sent, where the two are not in one order, and where anything is wrong with the file: whoever stages it
    whole tells the line. Other writers wait from the first row on. Raises RefreshError.
    """
    if is_one_part(load.layout) or load.table.transformed or not can_be_read_in_parts(conn):
        return None
    with conn.transaction() as attempt:
        try:
            return _Chunks(conn, load, target, callbacks, new).take()
        except (WholeFileNeededError, CopyFailedError, ShrinkRefusedError) as error:
            _log.info("%s: the whole file is staged: %s", target.shown, _reason(error))
        # Other writers need not wait yet.
        raise psycopg.Rollback(attempt)
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, CopyFailedError):
        return "the server did not take a row"
    return "too few rows would be kept" if isinstance(error, ShrinkRefusedError) else str(error)


@dataclass(frozen=True)
class _Chunks:
    """One attempt, inside its savepoint. WholeFileNeededError: what was begun must be done with the whole file."""

    conn: Connection
    load: Load
    target: Target
    callbacks: Callbacks
    new: bool

    def take(self) -> Taken:
        self.target.lock()
        rows_before = 0 if self.new else self.target.count()
        chunks = self._cut(rows_before)
        # More than all cannot be kept.
        most = Kept(self.load.rows, ())
        self.callbacks.check_shrink(most, rows_before)
        if not self.new and not self.target.shows_repeated_keys():
            raise WholeFileNeededError("the table has no unique key, or not the declared columns")
        create_stage(self.conn, self.load, PART_BYTES)
        source = Source(TABLE, compose.TRUE, most, key_checked=False, whole=False)
        if not self.target.stores_what_is_sent(source):
            raise WholeFileNeededError("the table has other types than declared, triggers or rules")
        totals = ChunkTotals(self.conn, self.load)
        try:
            with contextlib.closing(self._staged(chunks, totals)) as staged:
                kept, changes = (self._replace if rows_before else self._fill)(staged, source, totals, rows_before)
            self.target.check_constraints()
        except (errors.IntegrityError, errors.ProgramLimitExceeded) as error:
            # What is wrong with the file is to be told first.
            raise WholeFileNeededError("the table did not take a row") from error
        totals.check_left_out(self.target.name)
        return Taken(kept, changes, rows_before)

    def _cut(self, rows_before: int) -> list[Chunk]:
        # The pages of an empty table, which may be many, hold nothing to compare with.
        pages = count_pages(self.conn, self.target.name) if rows_before else 0
        if rows_before and not pages:
            raise WholeFileNeededError("the rows of the table stand in partitions")
        chunks = chunks_of(self.load.layout, pages)
        if len(chunks) == 1:
            raise WholeFileNeededError("it cannot be cut between rows")
        return chunks

    def _replace(
        self, staged: Iterator[_Staged], source: Source, totals: ChunkTotals, rows_before: int
    ) -> tuple[Kept, Changes]:
        ask_for_memory(self.conn, "hash")
        comparison = PartwiseComparison(self.conn, self.target.delta_pieces(source))
        for chunk, keep in staged:
            comparison.compare(keep, chunk.pages)
            if not comparison.in_one_order(totals.rows, self.load.rows):
                raise WholeFileNeededError("its rows and those of the table are not in one order")
            self.callbacks.ended("compare")
        comparison.finish()
        kept = totals.total()
        self.callbacks.check_shrink(kept, rows_before)
        ended = partial(self.callbacks.ended, "compare")
        return kept, self.target.apply_delta(replace(source, kept=kept), rows_before, ended)

    def _fill(
        self, staged: Iterator[_Staged], source: Source, totals: ChunkTotals, rows_before: int
    ) -> tuple[Kept, Changes]:
        ask_for_memory(self.conn, "sort")
        for _chunk, keep in staged:
            part = replace(source, keep=keep)
            if self.new:
                self.target.insert_new(part)
            else:
                self.target.insert_part(part, ALL_PAGES)
            self.callbacks.ended("apply")
        if self.new:
            self.target.add_key()
        ask_for_memory(self.conn, "hash")
        kept = totals.total()
        self.callbacks.check_shrink(kept, rows_before)
        return kept, self.target.filled(kept.rows)

    def _staged(self, chunks: list[Chunk], totals: ChunkTotals) -> Generator[_Staged, None, None]:
        """Let one chunk after the other stand on the stage, alone; yield it and the condition that keeps its rows."""
        with sending(self.conn, self.load, self.callbacks.progress) as file:
            for chunk in chunks:
                keep = totals.add(file.copy(("pg_temp", TABLE), chunk.end))
                self.callbacks.ended("stage")
                yield chunk, keep
                empty_stage(self.conn)

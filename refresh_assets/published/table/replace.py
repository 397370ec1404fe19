"""The locked replace: one transaction after which the table holds what is published, or what it held before."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
import tenacity
from psycopg import errors

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, fix_formats, limit
from refresh_assets.published.table import guards, history
from refresh_assets.published.table.by_chunks import Callbacks, take_by_chunks
from refresh_assets.published.table.explain import explain
from refresh_assets.published.table.fill import fill
from refresh_assets.published.table.guards import ShrinkRefusedError
from refresh_assets.published.table.history import Counts, Fingerprint, PastLoad
from refresh_assets.published.table.job_key import changed_parts
from refresh_assets.published.table.keep import Kept
from refresh_assets.published.table.load import Load, Outcome, Result
from refresh_assets.published.table.refused import NotTakenError, ended
from refresh_assets.published.table.send import CopyFailedError
from refresh_assets.published.table.stage import stage
from refresh_assets.published.table.standing import Standing
from refresh_assets.published.table.target import Taken, Target
from refresh_assets.published.table.unique import RepeatedKeyError

ATTEMPTS = 5
_log = logging.getLogger(__name__)


def replace(
    conn: Connection,
    load: Load,
    *,
    lock_seconds: float = 30,
    statement_seconds: float = 3600,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> Result:
    """Make the table equal to the file in one transaction on `conn`, or find that it is.

    The load's guard is called at the transaction's end, unless the outcome is `locked`; what it raises rolls back.
    A serialization failure or a deadlock repeats the whole transaction, at most five times. Any other error rolls it
    back and is raised: RefreshError where a person can mend it, psycopg.Error otherwise.
    """
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((errors.SerializationFailure, errors.DeadlockDetected)),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=5),
        before_sleep=tenacity.before_sleep_log(_log, logging.WARNING),
        reraise=True,
    )
    try:
        history.create_tables(conn, load.schema, lock_seconds)
        return attempts(_attempt, conn, load, lock_seconds, statement_seconds, progress)
    except (CopyFailedError, RepeatedKeyError, NotTakenError) as error:
        raise explain(conn, load, error) from error
    except psycopg.Error as error:
        told = ended(load, error, lock_seconds=lock_seconds, statement_seconds=statement_seconds)
        if told is None:
            raise
        raise told from error


def _attempt(
    conn: Connection, load: Load, lock_seconds: float, statement_seconds: float, progress: Callable[[int], None]
) -> Result:
    with conn.transaction():
        limit(conn, lock_seconds=lock_seconds, statement_seconds=statement_seconds)
        fix_formats(conn)
        result = _Replace(conn, load, progress).run()
        if load.guard is not None and result.outcome != "locked":
            load.guard(conn)
        return result


@dataclass
class _Phases:
    """Seconds spent in each phase: compare (with what is there), stage, apply."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def end(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now


@dataclass
class _Replace:
    """One attempt, inside its transaction."""

    conn: Connection
    load: Load
    progress: Callable[[int], None]

    def __post_init__(self) -> None:
        self.target = Target(self.conn, self.load.schema, self.load.table)
        self.phases = _Phases()

    def run(self) -> Result:
        if not history.try_lock(self.conn, self.load.schema, self.load.table):
            return self._result("locked")
        standing = Standing.read(self.conn, self.load)
        self.phases.end("compare")
        if standing.same_key and standing.drift is None:
            return self._result(
                "unchanged",
                rows=self.target.count(),
                rows_staged=standing.last.rows_staged if standing.last else None,
                unbumped=standing.unbumped,
                **_of_last(standing.last),
            )
        return self._load(standing)

    def _load(self, standing: Standing) -> Result:
        parts = changed_parts(standing.state.parts, self.load.parts) if standing.state else ()
        taken = self._take_in(partial(self._check_shrink, standing, parts))
        kept, changes = taken.kept, taken.changes
        drift = standing.drift_of(taken.rows_before)
        fingerprint = self._verify(kept)
        counts = Counts(self.load.rows, kept.rows, changes.added, changes.changed, changes.removed)
        load_id, loaded_at = history.write(self.conn, self.load, counts, fingerprint, drifted=drift is not None)
        self.phases.end("apply")
        return self._result(
            "loaded",
            rows=kept.rows,
            rows_staged=self.load.rows,
            added=changes.added,
            changed=changes.changed,
            removed=changes.removed,
            first_load=standing.state is None,
            changed_parts=parts,
            drift=drift,
            unbumped=standing.unbumped,
            load_id=load_id,
            loaded_at=loaded_at,
            loaded_by=self.load.run_id,
            earlier=self.load.instead_of is not None,
            filter_counts=kept.filter_counts,
            samples=changes.samples,
        )

    def _take_in(self, check_shrink: Callable[[Kept, int], None]) -> Taken:
        """Make the table equal to the file: without a stage, chunk by chunk, or by staging it whole."""
        new = not self.target.exists()
        filled = fill(self.conn, self.load, self.target, self.progress) if new else None
        if filled:
            self.phases.end("stage")
            check_shrink(filled, 0)
            return Taken(filled, self.target.filled(filled.rows), 0)
        if new:
            self.target.create()
        callbacks = Callbacks(check_shrink, self.progress, self.phases.end)
        taken = take_by_chunks(self.conn, self.load, self.target, callbacks, new=new)
        return taken or self._by_stage(check_shrink, new=new)

    def _by_stage(self, check_shrink: Callable[[Kept, int], None], *, new: bool) -> Taken:
        keyed = not new and self.target.shows_repeated_keys()
        source = stage(self.conn, self.load, self.progress, keyed_target=keyed)
        self.phases.end("stage")
        self.target.lock()
        rows_before = 0 if new else self.target.count()
        try:
            check_shrink(source.kept, rows_before)
        except ShrinkRefusedError:
            # A file with repeated keys is not sound, which is to be told first.
            source.check_key(self.conn, self.load.table.key)
            raise
        changes = self.target.replace(source, rows_before, new=new, compared=lambda: self.phases.end("compare"))
        return Taken(source.kept, changes, rows_before)

    def _check_shrink(self, standing: Standing, parts: Sequence[str], kept: Kept, rows_before: int) -> None:
        if self.load.accept_shrink:
            return
        # Rows that came in behind the last load are no reason to refuse to load it again.
        before = standing.last.fingerprint.rows if standing.last and not parts else rows_before
        guards.check_shrink(self.load, kept, before, parts, standing.last.rows_staged if standing.last else None)

    def _verify(self, kept: Kept) -> Fingerprint:
        """Count what the table holds now, and fingerprint it. Raises RefreshError where it is not what was kept."""
        modulus = history.modulus_for(kept.rows)
        found = history.fingerprint(self.conn, self.load.schema, self.load.table, modulus)
        if found.rows != kept.rows:
            raise RefreshError(
                f"after loading, table {self.target.shown} held {found.rows} rows where {kept.rows} were kept; "
                "it has rows without a key or with a repeated one, or something removes rows as they are written; "
                "nothing was loaded"
            )
        return found

    def _result(self, outcome: Outcome, **what: Any) -> Result:
        return Result(outcome, self.load.job_key, self.load.parts, phases=self.phases.seconds, **what)


def _of_last(last: PastLoad | None) -> dict[str, Any]:
    """Return what a result tells of the load that the table holds already; nothing where another job loaded it."""
    if last is None:
        return {}
    return {
        "load_id": last.load_id,
        "loaded_at": last.loaded_at,
        "loaded_by": last.run_id,
        "earlier": last.instead_of is not None,
        "last_changes": (last.added, last.changed, last.removed),
    }

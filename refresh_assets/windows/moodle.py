"""The event log of Moodle: a Postgres table in the layout of its standard log, counted by its own server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from psycopg import sql

from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection, connect_with, limit
from refresh_assets.postgres.queries import queries
from refresh_assets.windows.source import Seen, Staged
from refresh_assets.windows.source_settings import MoodleSettings
from refresh_assets.windows.window import Window

NEEDED = ("id", "component", "target", "action", "userid", "courseid", "timecreated")
_SQL = queries("refresh_assets.windows", "sql/moodle.sql")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class MoodleLog:
    """A table in the layout of `logstore_standard_log`.

    A course is its id, or `site` where an event belongs to none; a kind is `component.target.action`. A learner is a
    user above 0 who is no guest, in an event that is not anonymous; every other event counts as an event alone.
    """

    settings: MoodleSettings

    @property
    def name(self) -> str:
        return f"table {'.'.join(self.settings.table)} in {self.settings.where}"

    @property
    def column_dependencies(self) -> Mapping[str, Sequence[str]]:
        """Return for each column of the metrics the columns of the log that decide it."""
        return {
            "since": ["timecreated"],
            "until": ["timecreated"],
            "course": ["courseid"],
            "kind": ["component", "target", "action"],
            "events": ["id"],
            "learners": ["userid", "anonymous"],
            "first_event": ["timecreated"],
            "last_event": ["timecreated"],
            "suppressed": ["userid", "anonymous"],
        }

    def stage(self, conn: Connection, windows: Sequence[Window], progress: Callable[[int], None]) -> Staged:
        """Let the log's server count, in one pass, and copy the cells; `progress` gets the bytes of cells that came.

        Raises RefreshError.
        """
        conn.execute(_SQL["drop"])
        conn.execute(_SQL["create"])
        with self.session() as log, _explained(self.name):
            statement = self._composed(log, "cells", windows)
            came = 0
            with log.cursor().copy(statement) as cells, conn.cursor().copy(_SQL["copy"]) as here:
                for block in cells:
                    here.write(block)
                    came += len(block)
                    progress(came)
        bounds = {"since": [w.since for w in windows], "until": [w.until for w in windows]}
        conn.execute(_SQL["fill"], bounds)
        rows: list[Any] = conn.execute(_SQL["seen"]).fetchall()
        found = _seen(windows, rows)
        return Staged({window: found.get(window) or Seen(window, 0, "") for window in windows})

    def look(self, windows: Sequence[Window]) -> Mapping[Window, Seen]:
        """Count the events of each window and add up their ids; a window without any event is left out."""
        try:
            with self.session() as log, _explained(self.name):
                rows: list[Any] = log.execute(self._composed(log, "look", windows)).fetchall()
        except psycopg.Error as error:
            # What is looked at for comparison must fail as such, and not what was loaded.
            said = error.diag.message_primary or str(error).strip()
            raise RefreshError(f"{self.name} could not be looked at: {said}") from error
        return _seen(windows, [(win, events, str(ids)) for win, events, ids in rows])

    @contextlib.contextmanager
    def session(self) -> Iterator[Connection]:
        """Connect to the log's server in a session that cannot write."""
        with connect_with(self.settings.keywords, "refresh-assets windows", self.settings.where) as log:
            limit(
                log,
                lock_seconds=self.settings.lock_timeout,
                statement_seconds=self.settings.statement_timeout,
                session=True,
            )
            log.execute(_SQL["session"])
            yield log

    def _composed(self, log: Connection, statement: str, windows: Sequence[Window]) -> sql.Composed:
        columns = self._columns(log)
        learner: sql.Composable = sql.SQL("userid > 0")
        if self.settings.guests:
            learner += sql.SQL(" AND userid <> ALL ({})").format(sql.Literal(list(self.settings.guests)))
        if "anonymous" in columns:
            learner += sql.SQL(" AND anonymous = 0")
        return _SQL[statement].format(
            win=_number(windows), table=self._table, within=_within(windows), is_learner=learner
        )

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(*self.settings.table)

    def _columns(self, log: Connection) -> set[str]:
        """Return the columns of the table. Raises RefreshError where it is not there or is laid out otherwise."""
        name = sql.Literal(self._table.as_string(log))
        columns = {str(row[0]) for row in log.execute(_SQL["columns"].format(name=name))}
        if not columns:
            raise RefreshError(f"{self.name} is not there, or not for this role to see; WINDOW_MOODLE_TABLE names it")
        missing = [column for column in NEEDED if column not in columns]
        if missing:
            raise RefreshError(
                f"{self.name} lacks {', '.join(missing)}: it is not laid out as Moodle's logstore_standard_log"
            )
        return columns


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
        raise RefreshError(
            f"time-out: {name} was not counted in time ({error.diag.message_primary}); REFRESH_STATEMENT_TIMEOUT and "
            "REFRESH_LOCK_TIMEOUT set the seconds, and an index on timecreated makes it faster"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise RefreshError(f"{name} may not be read in full by this role: {error.diag.message_primary}") from error


def _seen(windows: Sequence[Window], rows: Sequence[tuple[int, int, str]]) -> dict[Window, Seen]:
    # An event that is added and another that is removed leave the count as it was, but not the sum of the ids.
    return {windows[win - 1]: Seen(windows[win - 1], events, f"{events}:{ids}") for win, events, ids in rows}


def _number(windows: Sequence[Window]) -> sql.Composable:
    """Return the expression for an event's window, counted from 1."""
    if len(windows) == 1:
        return sql.Literal(1)
    bounds = [_seconds(window.since) for window in windows]
    return sql.SQL("width_bucket(timecreated::bigint, {}::bigint[])").format(sql.Literal(bounds))


def _within(windows: Sequence[Window]) -> sql.Composed:
    """Return the condition that an event is in one of the windows, in as few ranges as there are without a gap."""
    ranges: list[list[int]] = []
    for window in windows:
        if ranges and ranges[-1][1] == _seconds(window.since):
            ranges[-1][1] = _seconds(window.until)
        else:
            ranges.append([_seconds(window.since), _seconds(window.until)])
    return sql.SQL(" OR ").join(
        sql.SQL("(timecreated >= {} AND timecreated < {})").format(sql.Literal(since), sql.Literal(until))
        for since, until in ranges
    )


def _seconds(moment: datetime) -> int:
    """Return the first whole second since 1970 that is not before the moment."""
    return -((_EPOCH - moment) // _SECOND)

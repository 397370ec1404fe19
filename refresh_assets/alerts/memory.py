"""What the failure sensor remembers from look to look: how far it came, what it has seen, what is wrong at present.

It stands beside the outbox and not in Dagster's cursor, which is lost whenever a tick raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from refresh_assets.alerts.outbox import storable, stored_key
from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

SEEN_DAYS = 60
_CREATE = queries("refresh_assets.alerts", "sql/create.sql")
_MEMORY = queries("refresh_assets.alerts", "sql/memory.sql")


class Memory:
    """The sensor's tables, by way of a connection to the outbox; every method is a statement of its own."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def create(self) -> None:
        """Create the tables where they are absent."""
        if self._one("absent"):
            with self._conn.transaction():
                self._conn.execute(_CREATE["create_lock"])
                for statement in ("positions", "places", "seen_runs", "spells"):
                    self._conn.execute(_MEMORY[statement])

    def now(self) -> datetime:
        """Return the time by the database's clock."""
        now: datetime = self._one("now")
        return now.astimezone(timezone.utc)

    def noted(self, name: str) -> datetime | None:
        """Return the instant that was noted under a name, in UTC."""
        instant: datetime | None = self._one("noted", name=name)
        return instant and instant.astimezone(timezone.utc)

    def note(self, name: str, instant: datetime) -> None:
        self._conn.execute(_MEMORY["note"], {"name": name, "instant": instant})

    def position(self, name: str) -> int | None:
        """Return the number that was noted under a name."""
        number: int | None = self._one("position", name=name)
        return number

    def place(self, name: str, number: int) -> None:
        """Note a number; a lower one than is known changes nothing."""
        self._conn.execute(_MEMORY["place"], {"name": name, "number": number})

    def unseen(self, runs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return those pairs of a run's id and a state in which it was not seen before."""
        wanted = set(runs)
        ids = list({run_id for run_id, _state in wanted})
        rows: Any = self._conn.execute(_MEMORY["seen"], {"run_ids": ids}).fetchall()
        return wanted - set(rows)

    def see(self, run_id: str, state: str) -> datetime:
        """Note that a run was seen in a state; return when it was first."""
        first: datetime = self._one("see", run_id=run_id, state=state)
        return first.astimezone(timezone.utc)

    def seen_as(self, state: str) -> Mapping[str, datetime]:
        """Return when each run was seen in a state; at most a thousand, the earliest first."""
        rows: Any = self._conn.execute(_MEMORY["of_state"], {"state": state}).fetchall()
        return dict(rows)

    def forget(self, run_id: str, state: str) -> None:
        self._conn.execute(_MEMORY["forget"], {"run_id": run_id, "state": state})

    def begin(self, kind: str, about: str, at: datetime) -> datetime:
        """Note that something is wrong, or that it still is; return since when."""
        began: datetime = self._one("begin", kind=kind, about=self.key(about), began_at=at)
        return began

    def be_alone(self, kind: str) -> None:
        """Keep other sensors from what is wrong of a kind, to the end of the open transaction."""
        self._conn.execute(_MEMORY["be_alone"], {"kind": kind})

    def begin_all(self, kind: str, abouts: Sequence[str], at: datetime) -> None:
        """Note of all of these that something is wrong; one that is known stays as it is."""
        values = {"kind": kind, "abouts": list(map(self.key, abouts)), "began_at": at}
        self._conn.execute(_MEMORY["begin_all"], values)

    def spells(self, kind: str) -> Mapping[str, datetime]:
        """Return what is wrong at present, and since when."""
        rows: Any = self._conn.execute(_MEMORY["spells_of"], {"kind": kind}).fetchall()
        return dict(rows)

    def end(self, kind: str, about: Sequence[str]) -> None:
        self._conn.execute(_MEMORY["end"], {"kind": kind, "about": list(map(self.key, about))})

    def told(self, event_key: str) -> bool:
        """Tell whether an alert of this event is in the outbox."""
        return bool(self._one("told", event_key=self.key(event_key)))

    def prune(self) -> None:
        self._conn.execute(_MEMORY["prune_seen"], {"days": SEEN_DAYS})

    def key(self, text: str) -> str:
        """Return a text as it is kept: of a length that an index takes, in the letters that the database has."""
        return storable(self._conn, stored_key(text))

    def _one(self, statement: str, **values: Any) -> Any:
        row = self._conn.execute(_MEMORY[statement], values or None).fetchone()
        return row[0] if row else None

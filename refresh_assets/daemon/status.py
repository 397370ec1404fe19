"""Who leads and who stands by, for people and for monitoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.text import instant
from refresh_assets.daemon.register import Participant, Term

# A standby that waits longer for a lease that nobody holds does not get it.
TAKEOVER = timedelta(minutes=1)


@dataclass(frozen=True)
class Tick:
    """The newest tick of a schedule or sensor."""

    name: str
    at: datetime


@dataclass(frozen=True)
class Daemons:
    """The daemons at the aware instant `now`; `last_term` is the newest one, over or not."""

    now: datetime
    participants: Sequence[Participant]
    last_term: Term | None
    last_tick: Tick | None
    timezone: str

    @property
    def leader(self) -> Participant | None:
        return next((one for one in self.participants if one.leads and one.state != "standby"), None)

    @property
    def standbys(self) -> list[Participant]:
        return [one for one in self.participants if one is not self.leader]

    @property
    def wrong(self) -> list[str]:
        """What a person should see to: nobody leads, although somebody should."""
        if self.leader is not None:
            return []
        if any(one.state == "standby" and self.now - one.since > TAKEOVER for one in self.standbys):
            return ["no daemon leads, although one stands by"]
        term = self.last_term
        if term is not None and term.ended_at is None and not self.standbys:
            return [f"no daemon leads: {term.host}, pid {term.pid}, led last and did not hand over"]
        return []

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        leader = self.leader
        if leader is None:
            yield f"{'--':<6} leader: none"
        else:
            yield f"{'ok':<6} leader: {self._who(leader)}"
        for one in self.standbys:
            yield f"{'ok':<6} {one.state}: {self._who(one)}"
        tick = self.last_tick
        ticked = "never" if tick is None else f"{tick.name}, {self._ago(tick.at)}"
        yield f"{'--':<6} last tick: {ticked}"
        yield from (f"{'FAILED':<6} {text}" for text in self.wrong)

    def as_json(self) -> dict[str, Any]:
        tick = self.last_tick
        return {
            "leader": self._written(self.leader) if self.leader else None,
            "standbys": [self._written(one) for one in self.standbys],
            "last_tick": {"name": tick.name, "at": _utc(tick.at)} if tick else None,
        }

    def _who(self, one: Participant) -> str:
        return f"{one.host}, pid {one.pid}, {one.state} since {self._ago(one.since)}"

    def _written(self, one: Participant) -> dict[str, Any]:
        return {"host": one.host, "pid": one.pid, "state": one.state, "since": _utc(one.since)}

    def _ago(self, when: datetime) -> str:
        return f"{instant(when, self.timezone)}, {span(self.now - when)} ago"


def _utc(when: datetime) -> str:
    return when.astimezone(timezone.utc).isoformat(timespec="seconds")

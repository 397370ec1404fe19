"""How long everything about the lease may take, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The defaults keep the promises of docs/scheduling.md: 6 s after a kill, 15 s after a freeze or a cut."""

    ping: float = 1.0
    """Between two pings of the leader's session."""
    answer: float = 3.0
    """For the answer to a ping; a leader that is left without one ends itself."""
    lease: float = 6.0
    """After which the server itself ends a session that no longer pings, and so frees its lock."""
    grace: float = 4.5
    """Which a new leader waits where the last one did not hand over, for that one to have ended itself."""
    poll: float = 0.25
    """Between two tries of a standby."""
    skew: float = 5.0
    """That a host's clock may differ from the server's: slots fall due by the leader's clock."""
    second_choice: float = 30.0
    """That nobody leads, before a host leads whose clock differs by more."""
    beat: float = 5.0
    """Between two signs of life in the table of participants."""
    takeover: float = 10.0
    """For ending what is left of earlier leaders' sessions."""
    handover: float = 5.0
    """For what is being started when the leader is told to stop."""
    outage: float = 60.0
    """Without an answer of the database, before a person is told: by a leader, or a process that was just started."""
    standby_outage: float = 240.0
    """The same for a standby: by then the leader's host will have told, if it can."""
    ask: float = 10.0
    """Between two new connections by which a leader sees whether the database still takes any."""
    location: float = 90.0
    """That a code location does not load, before a person is told."""
    again: float = 30.0
    """Before mail that could not be sent is tried again."""
    refresh: float = 60.0
    """Between two loads of the code by a leader, as Dagster's own daemon does."""
    standby_refresh: float = 300.0
    """The same for a standby."""

    def __post_init__(self) -> None:
        silent = self.ping + self.answer
        if not silent < self.grace or not silent < self.lease:
            raise ValueError("a leader must have ended itself before the server or a successor acts")

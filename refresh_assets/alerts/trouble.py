"""What another part of the product has to tell a person, in a form that the failure sensor takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from refresh_assets.alerts.text import Facts
from refresh_assets.settings import Env

COMMAND = "command"
"""The metadata of an asset that names the command line which refreshes it, for the mail that says what to do."""


@dataclass(frozen=True)
class Trouble:
    """Something that is wrong. `key` names it among those of its kind, for ever: what it is told once for.

    Links and the state of a table are added from `run_id` and `table` where the facts have none. One that lasts may
    consist of `parts`, such as windows in a row: it is the same one as long as it has any of them. One that is an event
    happened at `facts.since`, and has a `number` that tells it from others of that moment.
    """

    key: str
    facts: Facts
    run_id: str = ""
    table: str = ""
    parts: Sequence[str] = ()
    number: int = 0


# Called at every look with the database's time and the settings; returns all that holds now, told already or not.
Finder = Callable[[datetime, Env], Iterable[Trouble]]
# Called with the settings, an aware instant and a number; returns the next ones behind both, in their order, as many as
# it likes.
EventFinder = Callable[[Env, datetime, int], Sequence[Trouble]]

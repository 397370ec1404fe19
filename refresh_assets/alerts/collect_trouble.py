"""How other parts of the product join the failure sensor: what they find becomes mail. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dagster import DagsterRun

from refresh_assets.alerts.look import FIRST_LOOK_BACK, Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.alerts.trouble import EventFinder, Finder, Trouble

Collector = Callable[[Look], Iterator[Alert]]


# The database gives the numbers of events; one may be committed a little after the next.
_OVERLAP = 20


def once(kind: str, find: EventFinder) -> Collector:
    """Tell of each event once, such as a request that used up its retries, however long nobody looked."""
    place = f"events {kind}"

    def collect(look: Look) -> Iterator[Alert]:
        came_to = look.memory.position(place) or 0
        after = max(0, came_to - _OVERLAP)
        while not look.out_of_time and (page := find(look.env, after)):
            for trouble in page:
                key = f"{kind}:{trouble.key}"
                if not _is_history(look, trouble, came_to) and not look.memory.told(key):
                    yield look.alert(key, kind, _completed(look, trouble))
            after = page[-1].number
            look.memory.place(place, after)

    return _named(collect, kind)


def _is_history(look: Look, trouble: Trouble, came_to: int) -> bool:
    """Tell whether an event is from before the first look, or was told so long ago that its mail may be forgotten."""
    at = trouble.facts.since or look.now
    return at < look.since or (trouble.number <= came_to and at < look.now - FIRST_LOOK_BACK)


def lasting(kind: str, find: Finder) -> Collector:
    """Tell of each condition once while it lasts, such as a window that is due, and once when all of its kind is over.

    `find` returns every one that holds now: what it leaves out is over. What was told is known by its parts, and what
    has recovered by what it is about.
    """
    spells, told_parts = f"trouble {kind}", f"told of trouble {kind}"

    def collect(look: Look) -> Iterator[Alert]:
        known = look.memory.spells(told_parts)
        found = list(find(look.now, look.env))
        for trouble in found:
            noticed = look.memory.begin(spells, trouble.facts.about, look.now)
            if known.keys().isdisjoint(_parts(trouble)):
                since = trouble.facts.since or noticed
                key = f"{kind}:{trouble.key}:{noticed.isoformat()}"
                yield look.alert(key, kind, replace(_completed(look, trouble), since=since))
        present = {part for trouble in found for part in _parts(trouble)}
        look.memory.begin_all(told_parts, sorted(present - known.keys()), look.now)
        look.memory.end(told_parts, sorted(known.keys() - present))
        abouts = {trouble.facts.about for trouble in found}
        for about, noticed in look.memory.spells(spells).items():
            if about not in abouts:
                facts = Facts(about, "recovered", f"It is over; it was noticed at {instant(noticed, look.timezone)}.")
                yield look.alert(f"{kind}:{about}:{noticed.isoformat()}:recovered", "recovered", facts)
                look.memory.end(spells, [about])

    return _named(collect, kind)


def _parts(trouble: Trouble) -> Sequence[str]:
    return trouble.parts or (trouble.key,)


def _completed(look: Look, trouble: Trouble) -> Facts:
    facts, tables = trouble.facts, [trouble.table] if trouble.table else []
    return replace(
        facts,
        state=facts.state or look.state_of(tables, look.now),
        last_success=facts.last_success or look.last_verified(tables),
        run_url=facts.run_url or (look.run_url(run.run_id) if (run := _run_of(look, trouble)) else ""),
        asset_url=facts.asset_url or look.asset_url(tables),
    )


def _run_of(look: Look, trouble: Trouble) -> DagsterRun | None:
    """Return the run, where there is one to be seen in the UI."""
    return look.instance.get_run_by_id(trouble.run_id) if trouble.run_id else None


def _named(collect: Collector, kind: str) -> Collector:
    """Give a collector the name by which its own failures are told."""
    collect.__name__ = f"{kind}_troubles".replace(" ", "_")
    return collect

"""How other parts of the product join the failure sensor: what they find becomes mail. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dagster import DagsterRun

from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.alerts.trouble import EventFinder, Finder, Trouble

Collector = Callable[[Look], Iterator[Alert]]


# What is committed so long after its moment is still found. Mail that was sent is remembered for longer than the other.
_OVERLAP, _FIRST_BACK = timedelta(hours=1), timedelta(days=30)


def once(kind: str, find: EventFinder) -> Collector:
    """Tell of each event once, such as a request that used up its retries, however long nobody looked."""
    name = f"events {kind}"

    def collect(look: Look) -> Iterator[Alert]:
        came_to = look.memory.noted(name)
        # A clock that was ahead and was put right must not hide what happens until then.
        place = max(look.since, (min(came_to, look.now) - _OVERLAP) if came_to else look.now - _FIRST_BACK), 0
        while page := find(look.env, *place):
            for trouble in page:
                key = f"{kind}:{trouble.key}"
                if not look.memory.told(key):
                    yield look.alert(key, kind, _completed(look, trouble))
            last = _place(page[-1])
            if last <= place:
                raise AssertionError(f"{kind}: the finder returns what it was to leave behind")
            place = last
            if look.out_of_time:
                look.memory.note(name, min(place[0], look.now))
                return
        look.memory.note(name, look.now)

    return _named(collect, kind)


def _place(trouble: Trouble) -> tuple[datetime, int]:
    if trouble.facts.since is None:
        raise AssertionError("an event has a moment")
    return trouble.facts.since, trouble.number


def lasting(kind: str, find: Finder) -> Collector:
    """Tell of each condition once while it lasts, such as a window that is due, and once when all of its kind is over.

    `find` returns every one that holds now: what it leaves out is over. What was told is known by its parts, and what
    has recovered by what it is about.
    """
    # Since when there is any of what it is about, and each part that was told.
    abouts, told_parts = f"lasting {kind}", f"told of {kind}"

    def collect(look: Look) -> Iterator[Alert]:
        # The mails and what is remembered of them are written together or not at all, and by one sensor at a time.
        with look.conn.transaction():
            look.memory.be_alone(told_parts)
            yield from told(look)

    def told(look: Look) -> Iterator[Alert]:
        known = look.memory.spells(told_parts)
        found = [(trouble, [look.memory.key(part) for part in _parts(trouble)]) for trouble in find(look.now, look.env)]
        for trouble, parts in found:
            look.memory.begin(abouts, trouble.facts.about, look.now)
            if known.keys().isdisjoint(parts):
                facts = replace(_completed(look, trouble), since=trouble.facts.since or look.now)
                yield look.alert(f"{kind}:{trouble.key}:{look.now.isoformat()}", kind, facts)
        present = {part for _trouble, parts in found for part in parts}
        look.memory.begin_all(told_parts, sorted(present - known.keys()), look.now)
        look.memory.end(told_parts, sorted(known.keys() - present))
        lasts = {look.memory.key(trouble.facts.about) for trouble, _parts_of_it in found}
        for about, noticed in look.memory.spells(abouts).items():
            if about not in lasts:
                facts = Facts(about, "recovered", f"It is over; it was noticed at {instant(noticed, look.timezone)}.")
                yield look.alert(f"{kind}:{about}:{noticed.isoformat()}:recovered", "recovered", facts)
                look.memory.end(abouts, [about])

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

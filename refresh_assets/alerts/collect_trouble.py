"""How other parts of the product join the failure sensor: what they find becomes mail. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dagster import DagsterRun

from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.alerts.trouble import Finder, Trouble

Collector = Callable[[Look], Iterator[Alert]]


def once(kind: str, find: Finder) -> Collector:
    """Tell of each event once, such as a request that used up its retries; `find` may leave out what is old."""

    def collect(look: Look) -> Iterator[Alert]:
        for trouble in find(look.now, look.env):
            key = f"{kind}:{trouble.key}"
            if not look.memory.told(key):
                yield look.alert(key, kind, _completed(look, trouble))

    return _named(collect, kind)


def lasting(kind: str, find: Finder) -> Collector:
    """Tell of each condition once while it lasts, such as a window that is due, and once when it is over.

    `find` returns every one that holds now: what it leaves out is over.
    """
    spells = f"trouble {kind}"

    def collect(look: Look) -> Iterator[Alert]:
        known = look.memory.spells(spells)
        found = {trouble.key: trouble for trouble in find(look.now, look.env)}
        for trouble in found.values():
            began = look.memory.begin(spells, trouble.key, trouble.facts.since or look.now)
            key = f"{kind}:{trouble.key}:{began.isoformat()}"
            if not look.memory.told(key):
                yield look.alert(key, kind, replace(_completed(look, trouble), since=began))
        for name in sorted(known.keys() - found.keys()):
            began = known[name]
            key = f"{kind}:{name}:{began.isoformat()}"
            about = look.memory.told_about(key) or name
            facts = Facts(about, "recovered", f"It is over; it had lasted since {instant(began, look.timezone)}.")
            yield look.alert(f"{key}:recovered", "recovered", facts)
            look.memory.end(spells, [name])

    return _named(collect, kind)


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

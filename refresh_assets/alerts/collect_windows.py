"""Windows that are due and not loaded within their limit, whatever the cause. Upper floor: stands on dagster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from refresh_assets.alerts.collect_overdue import cause_of
from refresh_assets.alerts.due_windows import due_windows
from refresh_assets.alerts.look import Look
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.overdue import span
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.alerts.windows import DueWindows
from refresh_assets.windows.state import JOB
from refresh_assets.windows.window import Window

_KIND, _WATCHED = "overdue window", "watched windows"
_SCHEDULE = "activity_metrics_schedule"
_SHOWN = 10


def overdue_windows(look: Look) -> Iterator[Alert]:
    """Tell once of each window that is overdue, of several at once in one mail, and when all are loaded."""
    found = due_windows(look.now, look.env)
    known = look.memory.spells(_KIND)
    if found is None:
        look.memory.end(_KIND, list(known))
        look.memory.end(_WATCHED, [JOB])
        return
    watched_since = look.memory.begin(_WATCHED, JOB, look.now)
    overdue = {str(window): window for window in found.overdue(look.now, watched_since)}
    fresh = [window for name, window in overdue.items() if name not in known]
    if fresh:
        yield look.alert(f"window overdue:{fresh[0]}", "overdue", _facts(look, found, fresh))
    for window in fresh:
        look.memory.begin(_KIND, str(window), window.until + found.limit)
    if known and not overdue:
        yield _recovered(look, found, min(known))
    look.memory.end(_KIND, [name for name in known if name not in overdue])


def _facts(look: Look, found: DueWindows, windows: Sequence[Window]) -> Facts:
    names = [str(window) for window in windows[:_SHOWN]]
    if len(windows) > _SHOWN:
        names.append(f"and {len(windows) - _SHOWN} more")
    return Facts(
        about=JOB,
        happened="is overdue",
        what=f"{len(windows)} window(s) of {JOB} are due and not loaded {span(found.limit)} after their end "
        "(setting WINDOW_MAX_DELAY).",
        reason="\n".join([f"not loaded: {names[0]}", *names[1:], cause_of(look, _SCHEDULE)]),
        since=windows[0].until + found.limit,
        state=_loaded(look, found),
        advice="Load what is due, in the UI or with `refresh-assets windows run`, and see to the schedule.",
    )


def _recovered(look: Look, found: DueWindows, first: str) -> Alert:
    facts = Facts(
        about=JOB,
        happened="recovered",
        what="All windows that were overdue are loaded.",
        state=_loaded(look, found),
    )
    return look.alert(f"window overdue:{first}:recovered", "recovered", facts)


def _loaded(look: Look, found: DueWindows) -> str:
    standing = found.due.state
    return f"loaded without a gap up to {instant(standing.marker, look.timezone)}" if standing else "never loaded"

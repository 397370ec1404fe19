"""Windows that have not ended by the database's clock: no host's clock decides that one is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from refresh_assets.postgres.connect import Connection
from refresh_assets.windows import state
from refresh_assets.windows.window import Window, WindowError, text

# A leader's clock may be five seconds ahead of the server's before it is told, and its ticks come that much too early.
MOST_AHEAD = timedelta(seconds=10)
_NOTHING = timedelta()


def wait_until_ended(conn: Connection, windows: Sequence[Window]) -> None:
    """Wait until all windows have ended by the database's clock, for ten seconds at most.

    Raises WindowError where one ends later than that.
    """
    ends = max((window.until for window in windows), default=None)
    # Two clocks do not run alike: the wait may take a little longer than it should.
    patience = time.monotonic() + 2 * MOST_AHEAD.total_seconds()
    while ends is not None and (ahead := ends - state.now(conn)) > _NOTHING:
        if ahead > MOST_AHEAD or time.monotonic() > patience:
            early = [str(window) for window in windows if window.until > ends - ahead]
            raise WindowError(
                f"{early[0]} has not ended{_others(early)}: by the database's clock it is {text(ends - ahead)}, and "
                "events are still to come. Nothing was changed. Ask for it again when it is over; if it is over by "
                "this host's clock, set the clock right"
            )
        time.sleep(ahead.total_seconds())


def too_early(ahead: timedelta) -> str:
    """Return what is said of a tick that came so long before the database's clock reached it."""
    return (
        f"the window that ends at this tick is left to a later one: by the database's clock the tick comes "
        f"{ahead.total_seconds():.0f} s too early, so this host's clock is ahead by as much at least; set it right"
    )


def _others(early: Sequence[str]) -> str:
    return f", nor have {len(early) - 1} others of this run" if len(early) > 1 else ""

"""How fresh an asset must be, as Dagster takes it. Upper floor: imports dagster."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

# What Dagster takes.
_LEAST = timedelta(seconds=60)


def fresh_within(fail: timedelta, warn: timedelta) -> dg.FreshnessPolicy:
    """Return the policy that an asset turns yellow after `warn` and red after `fail`, a minute at least.

    Without yellow, where `warn` is less than a minute or not before `fail`.
    """
    fail = max(fail, _LEAST)
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn if _LEAST <= warn < fail else None)

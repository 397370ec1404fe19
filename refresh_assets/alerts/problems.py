"""What is wrong with the settings of alerts: told, and no reason to stop a refresh or a look."""

from __future__ import annotations

import os
from collections.abc import Sequence

from refresh_assets.alerts.limits import interval_of, limits_of
from refresh_assets.alerts.settings import mail_of, ping_url_of, ui_url_of
from refresh_assets.settings import Env, Reader


def read_all(reader: Reader) -> None:
    """Read every setting of alerts; what is missing or wrong is left with the reader."""
    mail_of(reader)
    ui_url_of(reader)
    ping_url_of(reader)
    limits_of(reader)
    interval_of(reader)


def alert_problems(env: Env = os.environ) -> Sequence[str]:
    """Return what is missing or wrong among the settings of alerts, by name and without values."""
    reader = Reader(env)
    read_all(reader)
    return reader.problems

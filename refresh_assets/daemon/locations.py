"""Telling a person that a code location does not load: the sensor that tells of all else lives in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta

from refresh_assets.alerts.delivery import deliver
from refresh_assets.alerts.direct import alert_of
from refresh_assets.alerts.memory import Memory
from refresh_assets.alerts.outbox import connect_outbox, record
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.settings import ping_url_of, usable_mail
from refresh_assets.alerts.smtp import Mailer
from refresh_assets.alerts.text import Facts
from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.timing import Timing
from refresh_assets.postgres.connect import Connection
from refresh_assets.secrets import mask
from refresh_assets.settings import Env, Reader, read_timezone

_SPELL = "unloaded"
_PING_EVERY = 60.0


class Locations:
    """Remembers since when each code location does not load; what was told stands where every leader sees it."""

    def __init__(self, timing: Timing, echo: Callable[[str], None], env: Env = os.environ) -> None:
        self._timing = timing
        self._echo = echo
        self._env = env
        self._failing: dict[str, float] = {}
        self._told: set[str] | None = None
        self._again_at = self._ping_at = 0.0

    def look(self, errors: Mapping[str, str], loaded: set[str]) -> None:
        """Take the errors of those that do not load and the names of those that do, and tell what is due.

        Raises RefreshError or psycopg.Error where the outbox cannot be written; the next look tries again.
        """
        now = elapsed()
        self._failing = {name: self._failing.get(name, now) for name in errors}
        late = [name for name, began in self._failing.items() if now - began >= self._timing.location]
        told = self._told
        if told is not None and set(late) <= told and not told & loaded and not (told and now > self._again_at):
            return
        with connect_outbox(self._env) as conn:
            memory = Memory(conn)
            memory.create()
            told = set(memory.spells(_SPELL)) if told is None else told
            for name in [name for name in late if name not in told]:
                self._tell(conn, memory, name, errors[name])
                told.add(name)
            for name in sorted(told & loaded):
                self._recovered(conn, memory, name)
                told.discard(name)
            self._told = told
            # The sensor that sends what is owed may be what does not load.
            self._deliver(conn)
        self._ping(errors, late)

    def _tell(self, conn: Connection, memory: Memory, name: str, error: str) -> None:
        began = memory.begin(_SPELL, name, memory.now() - timedelta(seconds=elapsed() - self._failing[name]))
        facts = Facts(
            about=f"code location {name}",
            happened="does not load",
            what="No schedule and no sensor of it runs meanwhile.",
            reason=mask(error, self._env),
            since=began,
            advice="Mend what the reason says; loading is tried again every minute.",
            timezone=read_timezone(self._env),
        )
        record(conn, alert_of(f"location:{name}:{began.isoformat()}", "location", facts, self._env), self._env)
        self._echo(f"the code location {name} does not load")

    def _recovered(self, conn: Connection, memory: Memory, name: str) -> None:
        began = memory.spells(_SPELL)[name]
        facts = Facts(
            about=f"code location {name}",
            happened="recovered",
            what="It loads again.",
            since=began,
            timezone=read_timezone(self._env),
        )
        alert = alert_of(f"location:{name}:{began.isoformat()}:recovered", "recovered", facts, self._env)
        with conn.transaction():
            record(conn, alert, self._env)
            memory.end(_SPELL, [name])
        self._echo(f"the code location {name} loads again")

    def _deliver(self, conn: Connection) -> None:
        self._again_at = elapsed() + self._timing.again
        settings, _wrong = usable_mail(self._env)
        if settings is not None:
            deliver(conn, Mailer(settings, self._env))

    def _ping(self, errors: Mapping[str, str], late: list[str]) -> None:
        url = ping_url_of(Reader(self._env))
        if url and late and elapsed() > self._ping_at:
            self._ping_at = elapsed() + _PING_EVERY
            ping(url, "fail", "\n".join(f"{name} does not load: {errors[name]}" for name in late), self._env)

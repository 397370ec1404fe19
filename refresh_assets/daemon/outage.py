"""Telling a person that the database is gone, past the outbox, which is gone with it; and that it is back."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psycopg

from refresh_assets.alerts.delivery import deliver
from refresh_assets.alerts.direct import alert_of
from refresh_assets.alerts.heartbeat import host_name
from refresh_assets.alerts.outbox import Alert, connect_outbox, record
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.settings import ping_url_of, usable_mail
from refresh_assets.alerts.smtp import Mailer, send_now
from refresh_assets.alerts.text import Facts, instant
from refresh_assets.daemon.clock import elapsed
from refresh_assets.daemon.timing import Timing
from refresh_assets.errors import RefreshError
from refresh_assets.secrets import mask
from refresh_assets.settings import Env, Reader, read_timezone

_STEP = 0.2
_PING_EVERY = 60.0
_LONGEST_WAIT = 3600.0
ABOUT = "database"


@dataclass
class Spell:
    """A time without the database, since an aware instant.

    `told` says whether a mail was taken by its server, `refused` for whom it was not yet.
    """

    since: datetime
    told: bool = False
    refused: list[str] = field(default_factory=list)


class Outage:
    """Counts the time without an answer; a thread of its own tells, for sending takes long.

    A spell outlasts this process in a file of REFRESH_HOME: a daemon that is started again tells nothing twice.
    """

    def __init__(self, home: Path, timing: Timing, echo: Callable[[str], None], env: Env = os.environ) -> None:
        self._file = home / "database-outage.json"
        self._timing = timing
        self._echo = echo
        self._env = env
        self._spell = _read(self._file)
        self._answered: float | None = elapsed()
        self._patience = timing.outage
        self._reason = ""
        self._is_back = False
        self._again_at = self._tell_at = self._ping_at = 0.0
        self._attempts = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="outage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()

    def answered(self, *, standby: bool) -> None:
        """Note that the database answered just now, and whether another leads by what it said."""
        self._answered = elapsed()
        self._patience = self._timing.standby_outage if standby else self._timing.outage
        self._reason = ""
        self._is_back = True

    def rest(self) -> None:
        """Stop counting until the database answers or fails again: for a while nobody asks it."""
        self._answered = None

    def failed(self, reason: str) -> None:
        """Note why the database cannot be had."""
        if not self._reason:
            self._echo(f"the database cannot be had: {reason}")
        self._reason = reason
        self._is_back = False
        if self._answered is None:
            self._answered = elapsed()

    def _work(self) -> None:
        while not self._done.wait(_STEP):
            self._try_to_look()

    def _try_to_look(self) -> None:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - tried again
            self._echo(f"an outage of the database could not be told: {mask(str(error), self._env)}")
            self._again_at = elapsed() + self._timing.again

    def _look(self) -> None:
        answered = self._answered
        silent = 0.0 if answered is None else elapsed() - answered
        if silent > self._patience:
            self._is_back = False
            self._is_gone(silent)
        elif self._is_back and self._spell is not None and elapsed() > self._again_at:
            self._recovered(self._spell)

    def _is_gone(self, silent: float) -> None:
        if self._spell is None:
            self._spell = Spell(datetime.now(timezone.utc) - timedelta(seconds=silent))
            self._tell_at, self._attempts = 0.0, 0
        if elapsed() > self._ping_at:
            self._ping_at = elapsed() + _PING_EVERY
            self._ping_fail()
        if (not self._spell.told or self._spell.refused) and elapsed() > max(self._again_at, self._tell_at):
            self._tell(self._spell)
            _write(self._file, self._spell)

    def _ping_fail(self) -> None:
        url = ping_url_of(Reader(self._env))
        problem = ping(url, "fail", f"{_what()}: {self._reason}", self._env) if url else None
        if problem is not None:
            self._echo(problem)

    def _tell(self, spell: Spell) -> None:
        settings, _wrong = usable_mail(self._env)
        if settings is not None and spell.told:
            left = tuple(address for address in settings.recipients if address in spell.refused)
            settings = replace(settings, recipients=left) if left else None
        if settings is None:
            # Nobody to tell it to: the log has it.
            spell.told, spell.refused = True, []
            return
        facts = self._facts(
            "is gone",
            f"{_what()}. Nothing is refreshed meanwhile, and no other mail is sent.",
            spell,
            reason=self._reason or "it does not answer",
            advice="See to the server and the way to it; `refresh-assets check` on this host says what it meets with.",
        )
        if spell.told:
            self._put_off()
        answer = send_now(_alert("gone", facts, spell, self._env), settings, self._env)
        spell.told, spell.refused = True, list(answer.refused)
        self._echo("told by mail that the database is gone" + (f"; {answer.refusals}" if answer.refusals else ""))
        self._put_off()

    def _put_off(self) -> None:
        """Leave whom the server refuses alone for a while, for longer each time."""
        self._attempts += 1
        self._tell_at = elapsed() + min(_LONGEST_WAIT, self._timing.again * 2 ** min(self._attempts, 20))

    def _recovered(self, spell: Spell) -> None:
        """Owe the mail as any other, now that there is an outbox again, and send it."""
        if spell.told:
            now = datetime.now(timezone.utc)
            what = f"{host_name()} reaches it again since {instant(now, read_timezone(self._env))}."
            alert = _alert("recovered", self._facts("recovered", what, spell), spell, self._env)
            try:
                with connect_outbox(self._env) as conn:
                    record(conn, alert, self._env)
                    settings, _wrong = usable_mail(self._env)
                    if settings is not None:
                        deliver(conn, Mailer(settings, self._env))
            except (RefreshError, psycopg.Error):
                self._again_at = elapsed() + self._timing.again
                return
        self._spell = None
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _facts(self, happened: str, what: str, spell: Spell, reason: str = "", advice: str = "") -> Facts:
        return Facts(
            about=ABOUT,
            happened=happened,
            what=what,
            reason=reason,
            since=spell.since,
            advice=advice,
            timezone=read_timezone(self._env),
        )


def _what() -> str:
    return f"The database cannot be had from {host_name()}"


def _alert(kind: str, facts: Facts, spell: Spell, env: Env) -> Alert:
    # By the minute and not by the host: of two hosts that tell the same, mail programs show one.
    return alert_of(f"database:{kind}:{spell.since:%Y-%m-%dT%H:%M}", f"database_{kind}", facts, env)


def _read(file: Path) -> Spell | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Spell(datetime.fromisoformat(found["since"]), bool(found["told"]), list(found.get("refused", ())))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, spell: Spell) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**asdict(spell), "since": spell.since.isoformat()}), encoding="utf-8")

"""The sensor `failure_mail`: it looks for what went wrong and sends mail. Upper floor: imports dagster."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from refresh_assets.alerts import outbox
from refresh_assets.alerts.collect_dead import dead_runs
from refresh_assets.alerts.collect_overdue import overdue_tables
from refresh_assets.alerts.collect_runs import ended_runs, missed_retries
from refresh_assets.alerts.collect_stuck import stuck_runs
from refresh_assets.alerts.collect_ticks import failing_ticks
from refresh_assets.alerts.collect_windows import overdue_windows
from refresh_assets.alerts.declared import Declared
from refresh_assets.alerts.delivery import deliver
from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert, connect_outbox, record
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.settings import read_alerts, read_ping_url
from refresh_assets.alerts.smtp import Mailer
from refresh_assets.alerts.text import Facts
from refresh_assets.secrets import masked, masking
from refresh_assets.settings import Env, SettingsError

Collector = Callable[[Look], Iterator[Alert]]

# Runs that are found dead are ended before ended runs are looked for, so that they are told in the same look.
COLLECTORS: tuple[Collector, ...] = (
    dead_runs,
    ended_runs,
    missed_retries,
    stuck_runs,
    overdue_tables,
    overdue_windows,
    failing_ticks,
)
# Dagster gives a tick 60 seconds. A mail begun at the last moment may take 32 more, a call of the watcher 11.
LOOK_SECONDS, DELIVER_UNTIL, PING_UNTIL = 15.0, 25.0, 45.0
PING_EVERY = timedelta(minutes=1)
NOBODY = "SMTP_HOST and ALERT_TO are not set: nobody will be told of failures"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """What was done about owed mail; the last mail's error, and why the settings of mail are unusable, if so."""

    told: str
    error: str | None = None
    unusable: str | None = None

    @property
    def problems(self) -> list[str]:
        """What the outside watcher should know, since mail does not say it."""
        return [f"{self.told}: {problem}" for problem in (self.error, self.unusable) if problem]

    @property
    def sound(self) -> bool:
        return not self.problems and not self.told.startswith(NOBODY)

    def __str__(self) -> str:
        return self.told + (f"; the last error: {self.error}" if self.error else "")


def failure_mail(interval: int) -> dg.SensorDefinition:
    """Return the sensor, which looks every so many seconds at the least."""

    @dg.sensor(
        name="failure_mail",
        minimum_interval_seconds=interval,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends a mail for everything that went wrong, once: failed runs and checks, runs that died or are "
        "stuck, overdue tables, failing sensors and schedules. See docs/alerts.md.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        with masking():
            return dg.SkipReason(tick(context))

    return sensor


def tick(
    context: dg.SensorEvaluationContext, env: Env = os.environ, collectors: Sequence[Collector] = COLLECTORS
) -> str:
    """Look, write down, send, tell the watcher; return what was done in a line.

    Raises LookFailedError where something could not be looked for, SettingsError where settings are unusable, and
    RefreshError or psycopg.Error where the outbox cannot be reached.
    """
    began = time.monotonic()
    if context.repository_def is None:
        raise AssertionError("the sensor is evaluated with its repository")
    with connect_outbox(env) as conn:
        look = Look(context.instance, conn, Declared(context.repository_def), env, began + LOOK_SECONDS)
        problems = collect(look, collectors)
        delivery = _deliver(look, began)
        look.memory.prune()
        outbox.prune(conn)
        _tell_watcher(look, began, [*problems, *delivery.problems])
    _LOG.log(logging.INFO if delivery.sound else logging.WARNING, "failure_mail: %s", delivery)
    if delivery.unusable:
        problems.append(delivery.unusable)
    if problems:
        raise LookFailedError("; ".join([*problems, str(delivery)]))
    return str(delivery)


def collect(look: Look, collectors: Sequence[Collector] = COLLECTORS) -> list[str]:
    """Record what each collector finds; return what went wrong with the looking itself, a line for each.

    Raises psycopg.Error where the outbox cannot be written.
    """
    problems = [_record_found(look, collector) for collector in collectors]
    return [problem for problem in problems if problem is not None]


def _record_found(look: Look, collector: Collector) -> str | None:
    name = collector.__name__
    try:
        for alert in collector(look):
            record(look.conn, alert, look.env)
    except Exception as error:
        if look.conn.closed:
            raise
        _LOG.exception("failure_mail: %s", name)
        problem = f"{name}: {type(error).__name__}: {masked(error, look.env)}"
        record(look.conn, _failed(look, name, problem), look.env)
        return problem
    return None


def _failed(look: Look, name: str, problem: str) -> Alert:
    """Tell of a collector that fails once an hour, for as long as it does."""
    facts = Facts(
        about="failure_mail",
        what=f"The sensor failure_mail could not look for {name.replace('_', ' ')}; nobody is told of any.",
        reason=problem,
        since=look.now,
        advice="Open the sensor failure_mail in the UI: its last ticks show the whole error.",
    )
    return look.alert(f"collector:{name}:{look.now:%Y-%m-%dT%H}", "collector_failed", facts)


def _deliver(look: Look, began: float) -> Delivery:
    try:
        settings = read_alerts(look.env)
    except SettingsError as error:
        return Delivery(f"no mail is sent, {outbox.owed(look.conn).count} are owed", unusable=str(error))
    if settings is None:
        return Delivery(f"{NOBODY}; {outbox.owed(look.conn).count} mails are owed")
    done = deliver(look.conn, Mailer(settings, look.env), seconds=max(1.0, began + DELIVER_UNTIL - time.monotonic()))
    return Delivery(f"{done.sent} mails sent, {done.left} owed", error=done.error)


def _tell_watcher(look: Look, began: float, problems: Sequence[str]) -> None:
    """Tell the outside watcher, at most once a minute, that the sensor is at work, or what keeps it from its work."""
    url = read_ping_url(look.env)
    last = look.memory.noted("ping")
    if url is None or time.monotonic() > began + PING_UNTIL or (last and look.now - last < PING_EVERY):
        return
    look.memory.note("ping", look.now)
    problem = ping(url, "fail" if problems else "success", "\n".join(problems), look.env)
    if problem is not None:
        _LOG.warning("failure_mail: %s", problem)

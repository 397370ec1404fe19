"""The sensor `failure_mail`: it looks for what went wrong and sends mail. Upper floor: imports dagster."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from refresh_assets.alerts import outbox
from refresh_assets.alerts.collect_dead import dead_runs
from refresh_assets.alerts.collect_late import late_runs
from refresh_assets.alerts.collect_overdue import overdue_tables
from refresh_assets.alerts.collect_runs import ended_runs, missed_retries, put_off_runs
from refresh_assets.alerts.collect_stuck import stuck_runs
from refresh_assets.alerts.collect_ticks import failing_ticks
from refresh_assets.alerts.collect_trouble import Collector
from refresh_assets.alerts.declared import Declared
from refresh_assets.alerts.delivery import deliver
from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert, connect_outbox, record
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.problems import alert_problems
from refresh_assets.alerts.settings import ping_url_of, usable_mail
from refresh_assets.alerts.smtp import Mailer
from refresh_assets.alerts.text import Facts, counted
from refresh_assets.secrets import mask, masked, masking
from refresh_assets.settings import Env, Reader

# Runs that are found dead are ended before ended runs are looked for, so that they are told in the same look.
COLLECTORS: tuple[Collector, ...] = (
    dead_runs,
    ended_runs,
    late_runs,
    missed_retries,
    put_off_runs,
    stuck_runs,
    overdue_tables,
    failing_ticks,
)
# Dagster gives a tick 60 seconds. A mail begun at the last moment may take 32 more, a call of the watcher 11.
LOOK_SECONDS, DELIVER_UNTIL, PING_UNTIL = 15.0, 25.0, 45.0
PING_EVERY = timedelta(minutes=1)
_SETTINGS = "settings"
NOBODY = "SMTP_HOST and ALERT_TO are not set: nobody will be told of failures"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """What was done about owed mail, the last mail's error, and whether nobody is told by the settings."""

    told: str
    error: str | None = None
    silent: bool = False

    @property
    def problems(self) -> list[str]:
        """What the outside watcher should know, since mail does not say it."""
        return [f"{self.told}: {self.error}"] if self.error else []

    @property
    def sound(self) -> bool:
        return not self.problems and not self.silent

    def __str__(self) -> str:
        return self.told + (f"; the last error: {self.error}" if self.error else "")


def failure_mail(interval: int, more: Sequence[Collector] = ()) -> dg.SensorDefinition:
    """Return the sensor, which looks every so many seconds at the least; `more` are collectors of other wings."""

    @dg.sensor(
        name="failure_mail",
        minimum_interval_seconds=interval,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends a mail for everything that went wrong, once: failed runs and checks, runs that died or are "
        "stuck, overdue tables, failing sensors and schedules. See docs/alerts.md.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        with masking():
            return dg.SkipReason(tick(context, collectors=[*COLLECTORS, *more]))

    return sensor


def tick(
    context: dg.SensorEvaluationContext, env: Env = os.environ, collectors: Sequence[Collector] = COLLECTORS
) -> str:
    """Look, write down, send, tell the watcher; return what was done in a line.

    Raises LookFailedError where something could not be looked for or a setting of alerts is unusable, and RefreshError
    or psycopg.Error where the outbox cannot be reached.
    """
    began = time.monotonic()
    with connect_outbox(env) as conn:
        look = Look(context.instance, conn, _declared(context), env, began + LOOK_SECONDS)
        problems = collect(look, [wrong_settings, *collectors])
        problems += alert_problems(env)
        delivery = _deliver(look, began)
        look.memory.note("look", look.now)
        look.memory.prune()
        outbox.prune(conn)
        _tell_watcher(look, began, [*problems, *delivery.problems])
    _LOG.log(logging.INFO if delivery.sound else logging.WARNING, "failure_mail: %s", delivery)
    if problems:
        raise LookFailedError("; ".join([*problems, str(delivery)]))
    return str(delivery)


def wrong_settings(look: Look) -> Iterator[Alert]:
    """Tell once of settings of alerts that cannot be used, where mail can be sent in spite of them."""
    problems = alert_problems(look.env) if usable_mail(look.env)[0] else []
    about = "; ".join(problems)
    if problems:
        began = look.memory.begin(_SETTINGS, about, look.now)
        facts = Facts(
            about="settings",
            happened="are wrong",
            what="Settings of alerts cannot be used in the process of the sensor failure_mail; until they are mended, "
            "their defaults hold.",
            reason="\n".join(problems),
            since=began,
            advice="Mend them where the daemon is started, and start it anew; `refresh-assets check` names all.",
        )
        yield look.alert(f"settings:{about}:{began.isoformat()}", "settings", facts)
    look.memory.end(_SETTINGS, [known for known in look.memory.spells(_SETTINGS) if known != about])


def _declared(context: dg.SensorEvaluationContext) -> Declared:
    if context.repository_def is None:
        raise AssertionError("the sensor is evaluated with its repository")
    origin = context.code_location_origin
    return Declared(context.repository_def, origin.location_name if origin else None)


def collect(look: Look, collectors: Sequence[Collector] = COLLECTORS) -> list[str]:
    """Record what each collector finds; return what went wrong with the looking itself, a line for each.

    Raises psycopg.Error where the outbox cannot be written.
    """
    problems = [_record_found(look, collector) for collector in collectors]
    return [problem for problem in problems if problem is not None]


def _record_found(look: Look, collector: Collector) -> str | None:
    name = collector.__name__
    alerts = collector(look)
    try:
        for alert in alerts:
            if record(look.conn, alert, look.env):
                # Whoever reads the log finds the run and its reason there, whether the mail can be sent or not.
                _LOG.warning("failure_mail: %s: %s", alert.event_key, alert.subject)
    except Exception as error:
        if look.conn.closed:
            raise
        # What it has open on the connection ends now: what is written next is no part of it.
        if isinstance(alerts, Generator):
            alerts.close()
        # Not by `exception`, which would write down what an error echoes.
        _LOG.error("failure_mail: %s: %s", name, mask(traceback.format_exc(), look.env))
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
    settings, wrong = usable_mail(look.env)
    if settings is None:
        why = "no mail is sent until its settings are mended" if wrong else NOBODY
        return Delivery(f"{why}; {counted(outbox.owed(look.conn).count, 'mail')} owed", silent=True)
    done = deliver(look.conn, Mailer(settings, look.env), seconds=max(1.0, began + DELIVER_UNTIL - time.monotonic()))
    return Delivery(f"{counted(done.sent, 'mail')} sent, {done.left} owed", error=done.error)


def _tell_watcher(look: Look, began: float, problems: Sequence[str]) -> None:
    """Tell the outside watcher, at most once a minute, that the sensor is at work, or what keeps it from its work."""
    url = ping_url_of(Reader(look.env))
    last = look.memory.noted("ping")
    # A clock that was set back must not silence the calls.
    recent = last is not None and abs(look.now - last) < PING_EVERY
    if url is None or time.monotonic() > began + PING_UNTIL or recent:
        return
    look.memory.note("ping", look.now)
    problem = ping(url, "fail" if problems else "success", "\n".join(problems), look.env)
    if problem is not None:
        _LOG.warning("failure_mail: %s", problem)

"""Attacks on the failure sensor: what is set wrongly, breaks in the middle, comes twice, or comes in masses."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import dagster as dg
import psycopg
import pytest
from psycopg import OperationalError

from refresh_assets.alerts import collect_stuck
from refresh_assets.alerts.collect_runs import ended_runs
from refresh_assets.alerts.look import Look, LookFailedError
from refresh_assets.alerts.outbox import Alert, record
from refresh_assets.alerts.sensors import COLLECTORS, tick
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets_tests.outbox_fixtures import DUE, alert, deliver_to, rows
from refresh_assets_tests.smtp_server import Caught, catching
from refresh_assets_tests.test_alerts_heartbeat import BEATS, beating
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.watchtower import Watchtower

pytestmark = pytest.mark.slow

# Settings that cannot be used


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REFRESH_MAX_AGE", "a week"),
        ("REFRESH_STUCK_AFTER", "soon"),
        ("REFRESH_HEARTBEAT", "0"),
        ("REFRESH_ALERT_INTERVAL", "often"),
        ("DAGSTER_UI_URL", "dagster"),
        ("ALERT_PING_URL", "ping"),
        ("ALERT_FROM", "robot"),
        ("ALERT_TO", "team@example.org,nobody"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_and_silences_no_failure(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    tower.fail(tower.create_run(), "a failure")
    for _look in range(2):
        with pytest.raises(LookFailedError, match=name):
            tower.look()
    settings, failure = (str(caught.mail["Subject"]) for caught in tower.mailserver.mails)
    assert settings.startswith(f"[refresh] settings are wrong: {name} must ")
    assert failure == "[refresh] datasets failed: a failure"


def test_a_setting_that_is_wrong_again_after_it_was_mended_is_told_again(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("never", "8", "never"):
        monkeypatch.setenv("REFRESH_MAX_AGE", value)
        try:
            tower.look()
        except LookFailedError:
            assert value == "never"
    assert len(tower.mailserver.mails) == 2


# What breaks in the middle


def test_a_database_that_ends_the_connection_in_the_middle_of_a_look_loses_nothing(tower: Watchtower) -> None:
    for number in range(3):
        tower.fail(tower.create_run(), f"failure {number}")

    def cut(look: Look) -> Iterator[Alert]:
        for found in ended_runs(look):
            yield found
            pid = look.conn.info.backend_pid
            tower.shop.admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    with pytest.raises(OperationalError):
        tower.look([cut])
    assert len(tower.told()) == 3
    assert tower.told() == []


def test_a_database_that_goes_away_and_comes_back_loses_nothing(tower: Watchtower) -> None:
    tower.look()
    for number in range(3):
        tower.fail(tower.create_run(), f"failure {number}")
    admin, name = tower.shop.admin, tower.shop.env["PGDATABASE"]
    with (
        psycopg.connect(
            admin.info.dsn, password=tower.shop.env["PGPASSWORD"], dbname="postgres", autocommit=True
        ) as other,
        beating("a run") as warnings,
    ):
        wait_until(lambda: tower.sql("SELECT to_regclass('refresh_alerts.run_heartbeat') IS NOT NULL") == [(True,)])
        other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        ours = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
        other.execute(ours, [name, admin.info.backend_pid])
        with pytest.raises(RefreshError, match="no connection to the database"):
            tower.look()
        wait_until(lambda: warnings)
        other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        wait_until(lambda: tower.sql(BEATS))
    assert len(tower.told()) == 3
    assert tower.told() == []


def test_a_mail_at_which_the_server_always_hangs_up_does_not_hold_up_the_others(outbox: Connection) -> None:
    for number in range(4):
        record(outbox, alert(number))

    def hang_up(caught: Caught) -> str:
        return "421 closing" if b"failed: 0\r\n" in caught.content else "250 ok"

    with catching(answer=hang_up) as server:
        assert deliver_to(outbox, server).sent == 0
        # As long as the others wait, and not as long as the mail that the server hung up at.
        outbox.execute(DUE.replace("clock_timestamp()", "next_attempt_at - interval '40 seconds'"))
        assert deliver_to(outbox, server).sent == 3
    assert rows(outbox, "sent_at IS NULL") == [(True,), (False,), (False,), (False,)]


def test_a_row_of_the_outbox_that_somebody_broke_holds_up_no_other(tower: Watchtower) -> None:
    tower.fail(tower.create_run(), "a failure")
    tower.look(COLLECTORS[:0])
    injected = "E'x\\r\\nBcc: thief@example.org\\r\\n\\r\\n' || repeat('🐟', {length})"
    for column, length in {"subject": 9000, "body": 300_000, "html": 300_000, "about": 100, "event_key": 100}.items():
        values = dict.fromkeys(("subject", "body", "html", "about", "kind"), "'x'") | {
            "event_key": f"'broken {column}'"
        }
        values[column] = injected.format(length=length)
        names = ", ".join(values)
        tower.sql(f"INSERT INTO refresh_alerts.alert_outbox ({names}) VALUES ({', '.join(values.values())})")
    assert len(tower.told()) == 6
    for caught in tower.mailserver.mails:
        assert caught.recipients == ("team@example.org",)
        assert "Bcc" not in caught.mail


# What comes twice


def test_two_sensors_at_once_tell_each_failure_once(tower: Watchtower) -> None:
    failed = {tower.create_run().run_id for _run in range(30)}
    for run_id in failed:
        run = tower.instance.get_run_by_id(run_id)
        assert run is not None
        tower.fail(run)
    problems: list[BaseException] = []

    def look() -> None:
        try:
            for _look in range(3):
                tick(dg.build_sensor_context(instance=tower.instance, repository_def=tower.repository))
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    both = [threading.Thread(target=look) for _sensor in range(2)]
    for sensor in both:
        sensor.start()
    for sensor in both:
        sensor.join(120)
    assert problems == []
    assert len(tower.mailserver.ids) == len(set(tower.mailserver.ids)) == 30


# What comes in masses, and what is odd


def test_runs_that_wait_behind_more_than_a_page_of_others_are_told(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_stuck, "PAGE", 5)
    for _run in range(12):
        tower.create_run(status=dg.DagsterRunStatus.QUEUED)
    tower.create_run(job="nightly", tables=(), status=dg.DagsterRunStatus.QUEUED)
    tower.shop.admin.execute("UPDATE dagster.runs SET update_timestamp = update_timestamp - interval '10 minutes'")
    assert sorted(subject.split(":")[0] for subject in tower.subjects()) == [
        "[refresh] datasets is stuck",
        "[refresh] nightly is stuck",
    ]


ODD = [
    "line one\r\nBcc: thief@example.org\r\n\r\nline two",
    "\ud800 lone \udfff surrogates \x00 and \x1b[2J control",
    "Köln \u2013 東京 🐟 \u202eright to left",
    "x" * 200_000,
    "<script>alert(1)</script>\n.\r\n.\r\nQUIT\r\n",
    "",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_an_error_of_any_text_and_a_job_of_any_name_make_one_sound_mail(tower: Watchtower, text: str) -> None:
    @dg.op
    def fail() -> None:
        raise ValueError(text)

    @dg.job
    def odd() -> None:
        fail()

    odd.execute_in_process(instance=tower.instance, raise_on_error=False)
    (caught,) = tower.told()
    assert caught.mail["Subject"].startswith("[refresh] odd failed")
    assert caught.mail["Subject"].count("\n") == 0
    assert caught.recipients == ("team@example.org",)
    assert "Bcc" not in caught.mail
    assert max(map(len, caught.content.split(b"\r\n"))) <= 998
    head = caught.content.split(b"\r\n\r\n")[0]
    assert head.isascii()


@pytest.mark.parametrize("name", ["a\nb", "ü" * 300, "\x00", " "])
def test_a_run_of_any_job_name_is_told(tower: Watchtower, name: str) -> None:
    run = dg.DagsterRun(job_name=name.replace("\x00", "\\x00"), run_id=str(uuid.uuid4()))
    tower.instance.add_run(run)
    tower.fail(run, "it failed")
    (caught,) = tower.told()
    assert "failed: it failed" in str(caught.mail["Subject"])


# Failures of other code locations, and attempts


def test_a_run_that_dagster_tries_again_is_told_once_however_many_attempts_fail(tower: Watchtower) -> None:
    before: dg.DagsterRun | None = None
    for attempt in range(3):
        run = tower.create_run(tags={"dagster/retry_number": str(attempt)})
        if before is not None:
            tower.instance.add_run_tags(before.run_id, {"dagster/auto_retry_run_id": run.run_id})
        tower.fail(run, f"attempt {attempt}")
        tower.instance.add_run_tags(run.run_id, {"dagster/will_retry": str(attempt < 2).lower()})
        tower.look()
        before = run
    assert [str(caught.mail["Subject"]) for caught in tower.mailserver.mails] == [
        "[refresh] datasets failed: attempt 2"
    ]

"""Mail situations from public bug reports: a server that never greets, odd texts, passwords in them, a plain relay."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from refresh_assets.alerts import smtp
from refresh_assets.secrets import masking
from refresh_assets_tests.smtp_server import HANG, behaving
from refresh_assets_tests.test_alerts_heartbeat import execute
from refresh_assets_tests.watchtower import Watchtower

pytestmark = pytest.mark.slow


def fail_with(tower: Watchtower, text: str) -> str:
    """Run an op of ours that fails with a text; return the run's id."""

    @dg.op
    def fail() -> None:
        with masking():
            raise RuntimeError(text)

    return execute(tower, fail)


def test_a_server_that_never_greets_is_given_up_in_time_and_the_mail_stays_owed(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = fail_with(tower, "Loading datasets failed: checksum mismatch")
    with behaving({"": HANG}) as silent:
        monkeypatch.setenv("SMTP_PORT", str(silent.port))
        assert smtp.OPEN_SECONDS < 30
        monkeypatch.setattr(smtp, "STEP_SECONDS", 1.0)
        began = time.monotonic()
        told = tower.look()
        assert time.monotonic() - began < 20
    assert told.startswith("0 mails sent, 1 owed; the last error: the mail server")
    assert f"run:{run_id}:failed: [refresh] one failed: Loading datasets failed: checksum mismatch" in caplog.text
    assert "time-out" in caplog.text
    run = tower.instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE
    monkeypatch.setenv("SMTP_PORT", str(tower.mailserver.port))
    tower.sql("UPDATE refresh_alerts.alert_outbox SET next_attempt_at = clock_timestamp()")
    (caught,) = tower.told()
    assert "checksum mismatch" in caught.text()


def test_an_error_in_letters_of_all_scripts_arrives_as_it_is(tower: Watchtower) -> None:
    text = "Ladefehler in \u201edatasets.csv\u201c: Zeile 3, Spalte title: Köln \u2013 東京 🐟"
    fail_with(tower, text)
    (caught,) = tower.told()
    assert text in caught.text()
    head = caught.content.split(b"\r\n\r\n")[0]
    assert head.isascii()
    assert b"Subject: =?utf-8?" in head


def test_an_error_of_several_lines_makes_one_mail_with_a_subject_of_one_line(tower: Watchtower) -> None:
    text = 'delete on table "bookmark" breaks a rule\nDETAIL:  Key (id)=(1)\nCONTEXT: SQL statement\n\t"DELETE FROM x"'
    fail_with(tower, text)
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]).endswith('delete on table "bookmark" breaks a rule')
    assert "DETAIL:  Key (id)=(1)" in caught.text()
    assert '"DELETE FROM x"' in caught.text()


def test_passwords_in_an_error_stand_nowhere_and_the_host_does(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    role = f"loader_{tower.shop.env['PGDATABASE']}"
    tower.shop.admin.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'Tr0ub4dor&3'")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("PGUSER", role)
            patch.setenv("PGPASSWORD", "Tr0ub4dor&3")
            patch.setenv("LEARN_BASE", "https://fetcher:s3cr3t-tok3n@data.example/pub/")
            patch.setenv("ALERT_PING_URL", "http://127.0.0.1:1/ping/0123456789abcdef-0123")
            run_id = fail_with(
                tower,
                "could not connect: postgresql://loader:Tr0ub4dor%263@db.internal.example:5432/registry\n"
                "GET https://fetcher:s3cr3t-tok3n@data.example/pub/manifest.json: 500, "
                "POST http://127.0.0.1:1/ping/0123456789abcdef-0123/fail",
            )
            (caught,) = tower.told()
    finally:
        tower.shop.admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    events = "".join(
        str(row) for row in tower.shop.rows(f"SELECT event FROM dagster.event_logs WHERE run_id = '{run_id}'")
    )
    everywhere = [caught.content.decode(), caught.text(), str(tower.outbox("*")), caplog.text, events]
    for secret in ("Tr0ub4dor%263", "Tr0ub4dor&3", "s3cr3t-tok3n", "0123456789abcdef-0123"):
        assert [text for text in everywhere if secret in text] == [], secret
    assert "db.internal.example" in caught.text()


def test_a_plain_relay_gets_mail_without_a_login(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(tower, "Loading datasets failed: checksum mismatch")
    with behaving({"EHLO": "250 relay.example.org"}) as relay:
        monkeypatch.setenv("SMTP_PORT", str(relay.port))
        tower.look()
    assert len(relay.mails) == 1
    assert "AUTH" not in relay.commands

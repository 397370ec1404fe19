"""The mail server of `up`: each mail a file, a bounded number of them, and the team's own server first."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from email import message_from_bytes
from pathlib import Path
from types import SimpleNamespace

import pytest

from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.settings import read_alerts
from refresh_assets.alerts.smtp import send_now
from refresh_assets.local.mailbox import Keeper, mailbox

pytestmark = pytest.mark.slow

ALERT = Alert("run:1:failed", "failed", "datasets", "[refresh] datasets failed: Köln", "The body: Köln\n")


def test_a_mail_server_of_the_teams_is_left_in_its_place(tmp_path: Path) -> None:
    assert mailbox(tmp_path, {"SMTP_HOST": "mail.example.org"}) is None


def test_addresses_of_the_teams_stay_and_a_login_for_another_server_does_not(tmp_path: Path) -> None:
    given = {"ALERT_TO": "team@example.org", "SMTP_USER": "robot", "SMTP_PASSWORD": "x"}
    caught = mailbox(tmp_path, given)
    assert caught is not None
    settings = read_alerts({**given, **caught.environment(given)})
    assert settings is not None
    assert (settings.host, settings.security, settings.user) == ("127.0.0.1", "none", None)
    assert settings.recipients == ("team@example.org",)


def test_each_mail_is_a_file_and_the_server_ends_with_its_supervisor(tmp_path: Path) -> None:
    caught = mailbox(tmp_path, {})
    assert caught is not None
    settings = read_alerts(caught.environment({}))
    assert settings is not None
    command = [sys.executable, "-m", "refresh_assets.local.child", "mail", str(caught.folder), str(caught.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ), start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"catching mail in {caught.folder}\n".encode()
        answers = [send_now(ALERT, settings, {}) for _ in range(2)]
        files = sorted(caught.folder.iterdir())
        assert [answer.text for answer in answers] == [f"250 kept as {file.name}" for file in files]
        assert message_from_bytes(files[0].read_bytes())["From"] == "refresh-assets@localhost"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == -signal.SIGTERM


def test_only_the_newest_mails_are_kept(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, kept=3)
    for number in range(5):
        answer = asyncio.run(keeper.handle_DATA(None, None, SimpleNamespace(content=str(number).encode())))
        assert answer.startswith("250 kept as ")
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["2", "3", "4"]


def test_a_folder_that_is_gone_is_told_to_the_sender_who_keeps_the_mail(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "mail")
    (tmp_path / "mail").rmdir()
    answer = asyncio.run(keeper.handle_DATA(None, None, SimpleNamespace(content=b"x")))
    assert answer == "451 the mail cannot be kept: No such file or directory"

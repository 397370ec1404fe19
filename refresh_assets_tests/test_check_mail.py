"""`refresh-assets check` on mail: what is there, and with `--mail` what the server answers to a test mail."""

from __future__ import annotations

import pytest

from refresh_assets_tests.shop import Shop
from refresh_assets_tests.smtp_server import Mailserver, behaving, catching, unreachable

pytestmark = pytest.mark.slow


def mail_line(shop: Shop, *args: str, **env: str) -> tuple[int, str]:
    """Return the exit status and the line on mail; all else is in order."""
    shop.publish([])
    shop.publish_file("dataset_rights.csv", "", 0)
    code, out, _err = shop.run("check", *args, **env)
    lines = out.splitlines()
    assert [line[:6].strip() for line in lines[:-1]] == ["ok", "ok", "ok"]
    return code, lines[-1]


def settings_of(server: Mailserver, to: str = "a@example.org") -> dict[str, str]:
    return {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(server.port), "SMTP_SECURITY": "none", "ALERT_TO": to}


def test_without_settings_nobody_will_be_told(shop: Shop) -> None:
    assert mail_line(shop) == (0, "--     mail: not configured: nobody will be told of failures")


def test_a_test_mail_that_was_asked_for_needs_settings(shop: Shop) -> None:
    code, line = mail_line(shop, "--mail")
    assert (code, line[:6]) == (1, "FAILED")
    assert "set SMTP_HOST and ALERT_TO" in line


def test_half_of_the_settings_is_wrong(shop: Shop) -> None:
    shop.publish([])
    shop.publish_file("dataset_rights.csv", "", 0)
    code, out, _err = shop.run("check", SMTP_HOST="127.0.0.1")
    settings, *_others, mail = out.splitlines()
    assert (code, settings) == (1, "FAILED settings: not set in this environment: ALERT_TO")
    assert mail == "--     mail: not looked at, the settings come first"


def test_the_server_is_looked_at_and_nothing_is_sent(shop: Shop) -> None:
    with catching() as server:
        code, line = mail_line(shop, **settings_of(server))
    assert code == 0
    assert line.startswith(f"ok     mail: 127.0.0.1:{server.port} says 'mail.example.org")
    assert line.endswith("in clear, without login; from refresh-assets@example.org to a@example.org; none was sent")
    assert server.mails == []


def test_a_server_that_is_down_is_wrong(shop: Shop) -> None:
    code, line = mail_line(shop, **settings_of(unreachable()))
    assert code == 1
    assert line.startswith("FAILED mail: no connection to the mail server 127.0.0.1:")


def test_a_test_mail_is_sent_and_the_answer_told(shop: Shop) -> None:
    with catching() as server:
        code, line = mail_line(shop, "--mail", DAGSTER_UI_URL="https://dagster.example", **settings_of(server))
    assert (code, line) == (0, "ok     mail: a test mail went to a@example.org; the server said: 250 queued as 1")
    assert server.mails[0].mail["Subject"] == "[refresh] mail works"
    assert "https://dagster.example" in server.mails[0].text()


def test_a_test_mail_is_sent_although_other_settings_are_wrong(shop: Shop) -> None:
    with catching() as server:
        code, out, _err = shop.run("check", "--mail", PGHOST=None, **settings_of(server))
    assert code == 1
    assert "FAILED settings: not set in this environment: PGHOST" in out
    assert "ok     mail: a test mail went to" in out


def test_a_refused_test_mail_is_wrong(shop: Shop) -> None:
    with behaving({".": "554 looks like spam"}) as server:
        code, line = mail_line(shop, "--mail", **settings_of(server))
    assert code == 1
    assert line.startswith("FAILED mail: the mail server")
    assert line.endswith("554 looks like spam")


def test_a_refusal_for_one_of_several_is_wrong(shop: Shop) -> None:
    with catching(refused={"b@example.org": "550 no such user"}) as server:
        code, line = mail_line(shop, "--mail", **settings_of(server, "a@example.org,b@example.org"))
    assert code == 1
    assert "refused for b@example.org (550 no such user); the server said: 250 queued as 1" in line

"""The settings of mail: nothing, all that is needed, or by name what is missing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from refresh_assets.alerts.limits import Limits, usable_interval, usable_limits
from refresh_assets.alerts.problems import alert_problems
from refresh_assets.alerts.settings import AlertSettings, ping_url_of, read_alerts, ui_url_of, usable_mail
from refresh_assets.secrets import MASK, mask
from refresh_assets.settings import Reader, SettingsError

LEAST = {"SMTP_HOST": "mail.example.org", "ALERT_TO": "team@example.org"}


def read(**more: str) -> AlertSettings:
    settings = read_alerts({**LEAST, **more})
    assert settings is not None
    return settings


def error_of(env: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read_alerts(env)
    return str(caught.value)


def test_with_nothing_set_there_is_no_mail() -> None:
    assert read_alerts({}) is None
    assert read_alerts({"SMTP_HOST": " ", "ALERT_TO": ""}) is None


def test_with_the_least_everything_else_has_its_default() -> None:
    assert read() == AlertSettings(
        "mail.example.org", 587, "starttls", None, None, "refresh-assets@example.org", ("team@example.org",)
    )


@pytest.mark.parametrize(
    ("given", "security", "port"),
    [
        ({"SMTP_SECURITY": "tls"}, "tls", 465),
        ({"SMTP_SECURITY": "NONE"}, "none", 25),
        ({"SMTP_PORT": "465"}, "tls", 465),
        ({"SMTP_PORT": "25"}, "starttls", 25),
        ({"SMTP_PORT": "465", "SMTP_SECURITY": "starttls"}, "starttls", 465),
    ],
)
def test_port_and_security_follow_from_each_other(given: dict[str, str], security: str, port: int) -> None:
    settings = read(**given)
    assert (settings.security, settings.port) == (security, port)


def test_several_recipients_are_read_in_order_and_once() -> None:
    assert read(ALERT_TO=" b@x.org, a@x.org,,b@x.org ").recipients == ("b@x.org", "a@x.org")


def test_the_sender_is_given_or_the_user_or_of_the_first_recipients_domain() -> None:
    login = {"SMTP_USER": "robot@mail.example", "SMTP_PASSWORD": "x"}
    assert read(ALERT_FROM="me@x.org", **login).sender == "me@x.org"
    assert read(**login).sender == "robot@mail.example"
    assert read(**{**login, "SMTP_USER": "robot"}).sender == "refresh-assets@example.org"


def test_an_ipv6_address_may_stand_in_brackets() -> None:
    assert read(SMTP_HOST="[::1]").host == "::1"


def test_the_password_is_taken_from_a_file_and_is_masked_then(tmp_path: Path) -> None:
    path = tmp_path / "smtp"
    path.write_text("pässwörd 1\nmore\n", encoding="utf-8")
    env = {"SMTP_USER": "robot", "SMTP_PASSWORD_FILE": str(path)}
    assert read(**env).password == "pässwörd 1"
    assert mask("it is pässwörd 1.", env) == f"it is {MASK}."
    assert "pässwörd" not in repr(read(**env))


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"SMTP_HOST": "mail.example.org"}, "not set in this environment: ALERT_TO"),
        ({"ALERT_TO": "a@b.c"}, "not set in this environment: SMTP_HOST"),
        ({**LEAST, "SMTP_USER": "robot"}, "not set in this environment: SMTP_PASSWORD or SMTP_PASSWORD_FILE"),
        ({**LEAST, "SMTP_PASSWORD": "s3cret"}, "not set in this environment: SMTP_USER"),
        ({**LEAST, "SMTP_PORT": "0"}, "SMTP_PORT must be a port number"),
        ({**LEAST, "SMTP_SECURITY": "ssl"}, "SMTP_SECURITY must be one of starttls, tls, none"),
        ({**LEAST, "SMTP_HOST": "smtp://mail"}, "SMTP_HOST must be a host name or an address"),
        ({**LEAST, "SMTP_HOST": "mail.example.org:25"}, "SMTP_HOST must be a host name or an address, without port"),
        ({**LEAST, "SMTP_HOST": "[::1]:25"}, "SMTP_HOST must be a host name or an address, without port"),
        ({**LEAST, "ALERT_TO": " , "}, "ALERT_TO lists no address"),
        ({**LEAST, "ALERT_FROM": "team"}, "ALERT_FROM must be an address"),
        ({**LEAST, "SMTP_USER": "x", "SMTP_PASSWORD_FILE": "/nonexistent"}, "SMTP_PASSWORD_FILE must be a file"),
    ],
)
def test_what_is_missing_or_unusable_is_named(env: dict[str, str], words: str) -> None:
    text = error_of(env)
    assert words in text
    assert "s3cret" not in text
    assert text.count(";") == 0


def test_all_that_is_wrong_is_told_at_once() -> None:
    text = error_of({"ALERT_TO": "nobody", "SMTP_PORT": "x", "SMTP_USER": "me"})
    for name in ("SMTP_HOST", "ALERT_TO", "SMTP_PORT", "SMTP_PASSWORD"):
        assert name in text


@pytest.mark.parametrize(
    "address",
    [
        "a@b@c",
        "a b@c.d",
        "@c.d",
        "a@",
        "a@-c.d",
        "a@c..d",
        ".a@c.d",
        "Team <a@c.d>",
        "a@c.d\nBcc: x@y.z",
        "ä@c.d",
        "a@" + "c" * 300,
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    assert "ALERT_TO must list addresses" in error_of({**LEAST, "ALERT_TO": f"team@example.org,{address}"})


def test_the_addresses_of_the_ui_and_the_watcher_need_no_mail() -> None:
    assert ui_url_of(Reader({"DAGSTER_UI_URL": "https://dagster.example/x/"})) == "https://dagster.example/x"
    assert ping_url_of(Reader({"ALERT_PING_URL": " https://hc.example/1/ "})) == "https://hc.example/1/"
    assert ui_url_of(Reader({})) is None
    assert ping_url_of(Reader({})) is None


@pytest.mark.parametrize(
    "url", ["hc.example/s3cret", "ftp://x/s3cret", "http://", "http://x:port/s3cret", "http://[s3cret"]
)
def test_what_is_no_web_address_is_named_and_not_shown(url: str) -> None:
    assert alert_problems({"ALERT_PING_URL": url}) == ["ALERT_PING_URL must be an http or https URL"]
    assert ping_url_of(Reader({"ALERT_PING_URL": url})) is None


# What is wrong, and what holds meanwhile


def test_every_unusable_setting_of_alerts_is_named_at_once() -> None:
    env = {
        "REFRESH_MAX_AGE": "a week",
        "REFRESH_STUCK_AFTER": "-1",
        "REFRESH_HEARTBEAT": "1e9",
        "REFRESH_ALERT_INTERVAL": "nan",
        "DAGSTER_UI_URL": "dagster",
        "ALERT_PING_URL": "ping",
        "SMTP_PORT": "mail",
    }
    problems = "; ".join(alert_problems(env))
    for name in (*env, "SMTP_HOST", "ALERT_TO"):
        assert name in problems
    assert "a week" not in problems


def test_an_unusable_limit_has_its_default_and_the_others_what_they_were_given() -> None:
    limits = usable_limits({"REFRESH_MAX_AGE": "a week", "REFRESH_HEARTBEAT": "3"})
    assert limits == Limits(timedelta(days=8), timedelta(seconds=480), timedelta(seconds=3))
    assert usable_interval({"REFRESH_ALERT_INTERVAL": "often"}) == 15


def test_one_recipient_that_is_no_address_does_not_keep_the_others_from_being_told() -> None:
    settings, problems = usable_mail({**LEAST, "ALERT_TO": "team@example.org, nobody", "ALERT_FROM": "robot"})
    assert settings is not None
    assert (settings.recipients, settings.sender) == (("team@example.org",), "refresh-assets@example.org")
    assert len(problems) == 2


@pytest.mark.parametrize("wrong", [{"SMTP_PORT": "x"}, {"SMTP_USER": "robot"}, {"ALERT_TO": "nobody"}])
def test_mail_is_not_sent_by_settings_that_leave_open_how(wrong: dict[str, str]) -> None:
    settings, problems = usable_mail({**LEAST, **wrong})
    assert settings is None
    assert problems


def test_any_setting_of_mail_means_that_mail_is_wanted() -> None:
    assert "not set in this environment: SMTP_HOST, ALERT_TO" in error_of({"ALERT_FROM": "me@example.org"})

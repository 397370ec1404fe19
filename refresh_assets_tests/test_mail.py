"""The mail of an alert: to be acted on from a phone, correct whatever the error holds, and without a password."""

from __future__ import annotations

import email
import email.policy
import random
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage

import pytest

from refresh_assets.alerts.mail import message
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.smtp import send_now
from refresh_assets.alerts.text import Facts, Text, counted, failure_text, holds, instant, listed, one_line, readable
from refresh_assets_tests.smtp_server import catching

ENV = {
    "HOME": "/nonexistent",
    "PGUSER": "loader",
    "PGPASSWORD": "Tr0ub<4dor&3",
    "LEARN_BASE": "https://fetcher:t0ken-w0rd@data.example/pub/",
}
LOADED = datetime(2026, 3, 2, 4, 17, tzinfo=timezone.utc)
FACTS = Facts(
    about="datasets",
    what="Step datasets_table of job weekly_refresh failed.",
    reason="staged 401 rows; the manifest says 400",
    since=LOADED + timedelta(days=7),
    state=holds(LOADED, 440),
    last_success=LOADED,
    advice="Ask the publisher to correct manifest.json, then materialize datasets_table.",
    run_url="https://dagster.example/runs/1",
    asset_url="https://dagster.example/assets/datasets_table",
    host="etl1.example",
)


def sent(facts: Facts) -> EmailMessage:
    """Return the mail about these facts as a mail program reads it, after looking at it as a mail server does."""
    mail = message(
        Alert(f"run:1:{facts.about}", "failed", facts.about, *failure_text(facts, ENV)), "a@b.example", ["c@d"]
    )
    raw = mail.as_bytes()
    assert raw.isascii()
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert sorted(read.keys()) == sorted(mail.keys())
    assert not read.defects
    return read


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


# What it says


def test_the_subject_says_what_failed_and_why() -> None:
    assert sent(FACTS)["Subject"] == "[refresh] datasets failed: staged 401 rows; the manifest says 400"


def test_the_body_says_what_to_know_and_to_do() -> None:
    assert text_of(sent(FACTS)) == (
        "datasets failed.\n\n"
        "Step datasets_table of job weekly_refresh failed.\n\n"
        "staged 401 rows; the manifest says 400\n\n"
        "Since:        2026-03-09 04:17 UTC\n"
        "State:        still holds the load of 2026-03-02 04:17 UTC, 440 rows\n"
        "Last success: 2026-03-02 04:17 UTC\n"
        "What to do:   Ask the publisher to correct manifest.json, then materialize datasets_table.\n"
        "Run:          https://dagster.example/runs/1\n"
        "Asset:        https://dagster.example/assets/datasets_table\n"
        "Host:         etl1.example\n"
    )


def test_the_html_shows_commands_as_such_and_takes_no_markup_from_others() -> None:
    html = text_of(sent(replace(FACTS, advice="Run `refresh-assets status <b>` now.")), "html")
    assert "<code>refresh-assets status &lt;b&gt;</code>" in html


def test_the_html_says_the_same_and_links_to_the_run_and_the_asset() -> None:
    html = text_of(sent(FACTS), "html")
    assert '<a href="https://dagster.example/runs/1">' in html
    assert '<a href="https://dagster.example/assets/datasets_table">' in html
    for words in ("staged 401 rows; the manifest says 400", "440 rows", "Ask the publisher", "etl1.example"):
        assert words in html


def test_what_is_not_known_is_left_out() -> None:
    mail = sent(Facts(about="weekly_refresh"))
    assert mail["Subject"] == "[refresh] weekly_refresh failed"
    assert text_of(mail) == "weekly_refresh failed.\n"


def test_another_happening_than_a_failure_is_named() -> None:
    assert failure_text(Facts(about="datasets", happened="recovered"), ENV).subject == "[refresh] datasets recovered"


def test_instants_are_shown_in_the_time_zone_of_the_team() -> None:
    assert instant(datetime(2026, 7, 1, 22, 5, tzinfo=timezone.utc), "Europe/Berlin") == "2026-07-02 00:05 CEST"
    text = failure_text(Facts(about="x", since=LOADED, timezone="Asia/Tokyo"), ENV)
    assert "2026-03-02 13:17 JST" in text.body


def test_the_state_says_which_load_and_whether_it_is_an_earlier_one() -> None:
    assert holds(LOADED, 1440) == "still holds the load of 2026-03-02 04:17 UTC, 1,440 rows"
    assert holds(LOADED, 1, still=False) == "holds the load of 2026-03-02 04:17 UTC, 1 row"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_names_are_listed_as_a_person_says_them(names: list[str], words: str) -> None:
    assert listed(names) == words


def test_one_thing_is_counted_in_the_singular() -> None:
    assert [counted(1, "mail"), counted(2000, "mail")] == ["1 mail", "2,000 mails"]
    assert [counted(1, "automatic retry"), counted(2, "automatic retry")] == [
        "1 automatic retry",
        "2 automatic retries",
    ]


# Headers


def test_the_mail_says_that_a_machine_wrote_it_when_and_about_which_event() -> None:
    mail = sent(FACTS)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["X-Refresh-Event"] == "run:1:datasets"
    age = datetime.now(timezone.utc) - email.utils.parsedate_to_datetime(mail["Date"])
    assert timedelta(seconds=-1) < age < timedelta(minutes=1)


def test_one_event_has_one_message_id_and_another_event_another() -> None:
    def message_id(key: str, sender: str = "me@b.example") -> str:
        return str(message(Alert(key, "failed", "x", "s", "b"), sender, ["c@d"], ENV)["Message-ID"])

    assert re.fullmatch(r"<[0-9a-f]{64}@b\.example>", message_id("run:1"))
    assert message_id("run:1") == message_id("run:1", "you@b.example")
    assert message_id("run:1") != message_id("run:2")
    assert message_id("x" * 5000 + "1") != message_id("x" * 5000 + "2")


def test_a_subject_is_one_line_of_bounded_length() -> None:
    subject = sent(Facts(about="t" * 500, reason="why " * 500))["Subject"]
    assert len(subject) <= 200
    assert subject.startswith("[refresh] ttt")
    assert subject.endswith("…")


@pytest.mark.parametrize(
    "name",
    [
        "week\nly",
        "week\r\nBcc: all@example.org",
        "week\r\n\r\n<b>body</b>",
        "week\x00\x1b[31mly\x7f",
        "a\u2028b\u2029c\x85d",
    ],
)
def test_line_breaks_and_control_characters_in_a_name_inject_nothing(name: str) -> None:
    mail = sent(Facts(about=name, happened=name, reason=name, what=name, host=name))
    assert mail["Bcc"] is None
    assert len(mail["Subject"].splitlines()) == 1
    assert mail["Subject"].isprintable()
    assert "<b>" not in text_of(mail, "html")


# The reason


def test_an_error_in_other_scripts_arrives_as_it_is() -> None:
    reason = "Ladefehler in „Ämter.csv“: Zeile 7, Spalte Titel: Zürich — 大阪 🦉"
    mail = sent(Facts(about="Ämter", reason=reason))
    assert mail["Subject"] == f"[refresh] Ämter failed: {reason}"
    assert reason in text_of(mail)
    assert reason in text_of(mail, "html")


def test_all_lines_of_an_error_are_there_and_the_first_is_in_the_subject() -> None:
    reason = "\n".join(
        ["", 'insert on table "marks" breaks a rule', "DETAIL:  Key (id)=(7)", *("frame\tx" for _ in range(40))]
    )
    mail = sent(Facts(about="marks", reason=reason))
    assert mail["Subject"] == '[refresh] marks failed: insert on table "marks" breaks a rule'
    assert reason.strip("\n") in text_of(mail)


def test_a_long_error_does_not_keep_the_facts_from_the_reader() -> None:
    body = failure_text(Facts(about="x", reason="\n".join(map(str, range(1000))), advice="Call me."), ENV).body
    assert body.index("0\n1\n2 …") < body.index("Call me.") < body.index("The whole reason") < body.index("998\n999")


def test_of_an_error_of_a_megabyte_the_beginning_and_the_end_are_kept() -> None:
    reason = "begin " + "x" * 1_000_000 + " end"
    mail = sent(Facts(about="x", reason=reason))
    body = text_of(mail)
    assert "begin xxx" in body
    assert "xxx end" in body
    assert "[… 970,010 characters are left out here …]" in body
    assert len(mail.as_bytes()) < 200_000


@pytest.mark.parametrize(
    "reason", [".", "..\n.\n.", "From here", "a" * 2000, "é" * 2000, "&<>\"'" * 10_000, "\r", "\udc80"]
)
def test_whatever_the_error_looks_like_it_arrives(reason: str) -> None:
    text = failure_text(Facts(about="x", reason=reason), ENV)
    with catching() as server:
        send_now(Alert("key", "failed", "x", *text), server.settings(), ENV)
    assert server.mails[0].text() == text.body
    assert server.mails[0].text("html") == text.html


def test_any_mixture_of_characters_makes_a_sound_mail() -> None:
    chance = random.Random(7)  # noqa: S311
    pieces = [
        "a",
        "bc ",
        " ",
        "é",
        "大",
        "🦉",
        "\n",
        "\r\n",
        "\x00",
        "\u2028",
        "=?",
        "?=",
        "=?utf-8?q?a=0Ab?=",
        "\t",
        "-",
    ]
    pieces += ["\udc80", ":", "<", "@", "long" * 30, "X-Evil: 1\r\n", "\n.\n", "\xa0", "_", '"', "\u202e"]
    for _ in range(150):
        mixed = "".join(chance.choices(pieces, k=chance.randrange(60)))
        facts = Facts(about=mixed or "x", reason=mixed, what=mixed)
        text: Text = failure_text(facts, ENV)
        mail = sent(facts)
        assert mail["Subject"] == text.subject
        assert text_of(mail) == text.body


# Secrets


@pytest.mark.parametrize(
    "written",
    [
        "postgresql://loader:Tr0ub%3C4dor%263@db.example:5432/registry",
        "the password is Tr0ub<4dor&3",
        "the password is Tr0ub&lt;4dor&amp;3",
        "GET https://fetcher:t0ken-w0rd@data.example/pub/manifest.json: 500",
        "AUTH PLAIN AGxvYWRlcgBUcjB1Yjw0ZG9yJjM=",
    ],
)
def test_no_password_is_in_any_part_of_a_mail(written: str) -> None:
    facts = Facts(about="x", what=written, reason=written, state=written, advice=written, run_url=written, host=written)
    masked = failure_text(facts, ENV)
    raw = Alert(f"key {written}", "failed", "x", written, written, written)
    for alert in (Alert("key", "failed", "x", *masked), raw):
        mail = message(alert, "a@b.example", ["c@d"], ENV)
        seen = [*map(str, mail.values()), text_of(mail), text_of(mail, "html")]
        for secret in ("Tr0ub", "t0ken", "cjB1Yj"):
            assert not any(secret in part for part in seen)
        assert any("***" in part for part in seen)


def test_the_host_in_an_address_with_a_password_is_kept() -> None:
    reason = "could not connect: postgresql://loader:Tr0ub%3C4dor%263@db.example:5432/registry"
    assert "postgresql://loader:***@db.example:5432/registry" in failure_text(Facts(about="x", reason=reason), ENV).body


# Texts


def test_a_readable_text_keeps_its_lines_and_shows_what_is_hidden() -> None:
    assert readable("a\r\nb\rc\td\x00\x1b[31mred\x1b[0m\u202e🦉") == "a\nb\nc\td\\x00red\\u202e🦉"


def test_one_line_is_cut_with_a_sign_of_it() -> None:
    assert one_line(" a \n b ", 10) == "a b"
    assert one_line("abcdef", 4) == "abc…"

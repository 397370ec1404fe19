"""How other parts of the product tell a person: by collectors of the sensor, or from processes of their own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest

from refresh_assets.alerts.collect_trouble import lasting, once
from refresh_assets.alerts.direct import could_not_begin, tell
from refresh_assets.alerts.look import LookFailedError
from refresh_assets.alerts.outbox import Alert
from refresh_assets.alerts.sensors import failure_mail
from refresh_assets.alerts.text import Facts
from refresh_assets.alerts.trouble import Trouble
from refresh_assets.settings import Env
from refresh_assets_tests.smtp_server import unreachable
from refresh_assets_tests.watchtower import UI, Watchtower

FACTS = Facts("window of 2026-03-02", "is not loaded", reason="it was due at 04:15")


def test_an_event_is_told_once_with_the_links_and_the_state_of_its_table(tower: Watchtower) -> None:
    run_id = tower.refresh()
    now = datetime.now(timezone.utc)
    found = Trouble("17", Facts("request 17", reason="its retries are used up", since=now), run_id, "datasets")
    collector = once("request", lambda _env, since, _after: [found] if since < now else [])
    for _look in range(2):
        tower.look([collector])
    (caught,) = tower.mailserver.mails
    assert caught.mail["Subject"] == "[refresh] request 17 failed: its retries are used up"
    assert f"{UI}/runs/{run_id}" in caught.text()
    assert f"{UI}/assets/datasets_table" in caught.text()
    assert "still holds the load of" in caught.text()


def test_a_condition_is_told_once_while_it_lasts_and_once_when_it_is_over(tower: Watchtower) -> None:
    found = [Trouble("2026-03-02", FACTS)]
    seen: list[datetime] = []

    def find(now: datetime, _env: Env) -> Iterable[Trouble]:
        seen.append(now)
        return found

    collector = lasting("window", find)
    for _look in range(2):
        tower.look([collector])
    found.clear()
    for _look in range(2):
        tower.look([collector])
    found.append(Trouble("2026-03-02", FACTS))
    tower.look([collector])
    assert [str(caught.mail["Subject"]) for caught in tower.mailserver.mails] == [
        "[refresh] window of 2026-03-02 is not loaded: it was due at 04:15",
        "[refresh] window of 2026-03-02 recovered",
        "[refresh] window of 2026-03-02 is not loaded: it was due at 04:15",
    ]
    assert seen == sorted(seen)
    assert seen[0].utcoffset() == timedelta()


def test_what_could_not_be_written_down_is_told_at_the_next_look(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = lasting("window", lambda _now, _env: [Trouble("2026-03-02", FACTS, parts=["a", "b"])])

    def refuse(*_args: object) -> None:
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("refresh_assets.alerts.memory.Memory.begin_all", refuse)
        with pytest.raises(LookFailedError, match="window_troubles: RuntimeError: no room"):
            tower.look([collector])
    assert not [subject for subject in tower.subjects() if "is not loaded" in subject]
    assert tower.sql("SELECT FROM refresh_alerts.spell WHERE kind LIKE '%window%'") == []
    for _look in range(2):
        tower.look([collector])
    assert len([caught for caught in tower.mailserver.mails if "is not loaded" in str(caught.mail["Subject"])]) == 1


def test_a_finder_that_fails_is_told_by_the_name_of_what_it_looks_for(tower: Watchtower) -> None:
    def find(_now: datetime, _env: Env) -> Iterable[Trouble]:
        raise RuntimeError("no such table")

    with pytest.raises(LookFailedError, match="window_troubles: RuntimeError: no such table"):
        tower.look([lasting("window", find)])
    assert "could not look for window troubles" in tower.mailserver.mails[0].text()


def test_collectors_are_given_where_the_sensor_is_made() -> None:
    assert failure_mail(15, [once("request", lambda _env, _since, _after: [])]).name == "failure_mail"


# From a process of its own


def test_another_process_owes_mail_that_the_sensor_sends(tower: Watchtower) -> None:
    for _time in range(2):
        assert tell("location:refresh_assets:1", "location", FACTS) is None
    assert tower.subjects() == ["[refresh] window of 2026-03-02 is not loaded: it was due at 04:15"]


def test_without_the_database_a_person_is_told_directly_and_by_the_same_message_id(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    assert tell("database:1", "database", FACTS) is None
    monkeypatch.setenv("PGPORT", tower.shop.env["PGPORT"])
    assert tell("database:1", "database", FACTS) is None
    tower.look()
    first, second = tower.mailserver.ids
    assert first == second


def test_that_nobody_could_be_told_is_returned_in_words_without_a_password(
    tower: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("SMTP_PORT", str(unreachable().port))
    told = tell("database:1", "database", FACTS) or ""
    assert "no connection to the database" in told
    assert "no connection to the mail server" in told
    assert tower.shop.env["PGPASSWORD"] not in told


def test_a_refresh_that_could_not_begin_is_told(tower: Watchtower) -> None:
    assert could_not_begin(["datasets"], "not set in this environment: LEARN_BASE") is None
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] datasets failed: not set in this environment: LEARN_BASE"
    assert Alert.__name__ not in caught.text()

"""`refresh-assets status`: how things stand, asked without any daemon and without leaving anything behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refresh_assets.alerts.standing import standing
from refresh_assets.alerts.status import NOTHING, Status
from refresh_assets_tests.shop import Shop
from refresh_assets_tests.test_alerts_waiting import verified
from refresh_assets_tests.watchtower import Watchtower, mail_settings, repository

pytestmark = pytest.mark.slow

MADE = "SELECT nspname FROM pg_namespace WHERE nspname IN ('etl', 'dagster', 'refresh_alerts')"


@pytest.fixture
def without_mail(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> Watchtower:
    for name in mail_settings(tower.mailserver):
        monkeypatch.delenv(name)
    return tower


def stands(tower: Watchtower) -> Status:
    return standing(tower.repository)


def test_the_command_tells_loads_ages_owed_mail_and_the_daemon_without_a_daemon(without_mail: Watchtower) -> None:
    tower = without_mail
    tower.refresh("datasets", "dataset_rights")
    code, out, err = tower.shop.run("status", "--json", DAGSTER_HOME=None)
    assert out, err
    found: dict[str, Any] = json.loads(out)
    assert (code, found["wrong"]) == (0, [])
    rights, datasets = found["tables"]
    assert (datasets["table"], datasets["rows"], datasets["overdue"]) == ("datasets", 40, False)
    assert (rights["table"], rights["rows"]) == ("dataset_rights", 5)
    assert datasets["limit_seconds"] == 8 * 86400
    assert found["mail"] == {"configured": False, "owed": 0, "oldest_at": None, "last_error": None}
    assert found["daemon"] == {"heartbeat_at": None, "leader": None, "standbys": [], "last_tick": None}
    assert found["sensor"] == {"looked_at": None}
    code, out, _err = tower.shop.run("status", DAGSTER_HOME=None)
    assert code == 0
    assert "ok     datasets: verified " in out
    assert "--     mail: nobody will be told of failures; 0 owed" in out


def test_of_a_fresh_database_it_says_that_nothing_was_loaded_and_makes_nothing(shop: Shop) -> None:
    code, out, err = shop.run("status")
    assert (code, err) == (1, "")
    assert f"FAILED {NOTHING}" in out
    assert "FAILED datasets: never loaded" in out
    assert shop.rows(MADE) == []
    assert not (shop.folder.parent / "home").exists()


def test_the_command_exits_1_where_the_database_is_away_and_shows_no_password(shop: Shop) -> None:
    code, out, err = shop.run("status", "--json", PGPORT="1")
    assert code == 1
    assert "no connection to the database" in json.loads(out)["wrong"][0]
    assert shop.env["PGPASSWORD"] not in out + err
    code, out, err = shop.run("status", PGPASSWORD=None, PGPASSFILE="/nowhere")
    assert (code, out) == (1, "")
    assert "PGPASSWORD or a password file" in err


def test_a_table_that_was_never_loaded_beside_one_that_was_is_wrong(without_mail: Watchtower) -> None:
    without_mail.refresh("datasets")
    found = stands(without_mail)
    assert found.wrong == ["dataset_rights was never loaded"]
    assert [line[:6] for line in found.lines()] == ["FAILED", "ok    ", "--    ", "--    ", "--    ", "FAILED"]


def test_a_table_that_is_overdue_is_wrong(without_mail: Watchtower) -> None:
    without_mail.refresh("dataset_rights")
    verified(without_mail, 8.5)
    assert stands(without_mail).wrong == ["datasets is overdue: not verified for 8 d 12 h"]


def test_a_load_verifies_where_dagsters_storage_knows_nothing(without_mail: Watchtower) -> None:
    without_mail.refresh("datasets", "dataset_rights")
    without_mail.shop.admin.execute("TRUNCATE dagster.event_logs CASCADE")
    assert stands(without_mail).wrong == []


def test_mail_that_is_owed_for_long_is_wrong(tower: Watchtower, monkeypatch: pytest.MonkeyPatch) -> None:
    tower.refresh("datasets", "dataset_rights")
    tower.fail(tower.create_run())
    monkeypatch.setenv("SMTP_PORT", "1")
    tower.look()
    assert stands(tower).wrong == []
    tower.sql("UPDATE refresh_alerts.alert_outbox SET created_at = created_at - interval '20 minutes'")
    found = stands(tower)
    assert found.wrong == ["mail is owed for 20 min"]
    assert found.owed.last_error


def test_a_sensor_that_does_not_look_although_mail_is_configured_is_wrong(tower: Watchtower) -> None:
    tower.refresh("datasets", "dataset_rights")
    assert "the sensor failure_mail never looked" in stands(tower).wrong[0]
    tower.look()
    assert stands(tower).wrong == []
    tower.sql("UPDATE refresh_alerts.noted SET instant = instant - interval '16 minutes' WHERE name = 'look'")
    assert "the sensor failure_mail last looked 16 min ago" in stands(tower).wrong[0]


def test_a_setting_of_alerts_that_cannot_be_used_is_wrong(
    without_mail: Watchtower, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_mail.refresh("datasets", "dataset_rights")
    monkeypatch.setenv("REFRESH_MAX_AGE", "a week")
    (wrong,) = stands(without_mail).wrong
    assert wrong.startswith("setting: REFRESH_MAX_AGE must be")


def test_looking_changes_nothing(shop_here: Shop) -> None:
    assert standing(repository()).wrong[0] == NOTHING
    assert shop_here.rows(MADE) == []

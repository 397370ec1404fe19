"""The settings of the event log: what is missing or wrong is named, and no password goes where it is not meant for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refresh_assets.secrets import MASK, mask
from refresh_assets.settings import SettingsError
from refresh_assets.windows.moodle import MoodleLog
from refresh_assets.windows.sample import SampleLog
from refresh_assets.windows.source_settings import read_kind, read_logs, read_moodle
from refresh_assets.windows.sources import read_source
from refresh_assets.windows.tracking_logs import TrackingLogs

OURS = {"PGHOST": "db", "PGPORT": "5433", "PGUSER": "etl", "PGDATABASE": "dwh", "PGPASSWORD": "0ur-word"}
OTHER = {"WINDOW_PGHOST": "lms", "WINDOW_PGUSER": "reader", "WINDOW_PGDATABASE": "moodle"}


def error_of(read: Callable[[dict[str, str]], Any], env: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read(env)
    return str(caught.value)


def test_the_setting_chooses_the_log(tmp_path: Path) -> None:
    home = {"REFRESH_HOME": str(tmp_path)}
    assert isinstance(read_source({**OURS, "WINDOW_SOURCE": "moodle"}), MoodleLog)
    assert isinstance(read_source({**home, "WINDOW_SOURCE": "OpenEdX", "WINDOW_LOGS": "/srv/logs"}), TrackingLogs)
    assert isinstance(read_source({**home, "WINDOW_SOURCE": " sample "}), SampleLog)
    assert read_kind({}) is None
    assert error_of(read_source, {}) == "not set in this environment: WINDOW_SOURCE"
    assert error_of(read_source, {"WINDOW_SOURCE": "x"}) == "WINDOW_SOURCE must be one of moodle, openedx, sample"


def test_without_more_the_table_is_in_our_own_database() -> None:
    settings = read_moodle(OURS)
    assert settings.table == ("mdl_logstore_standard_log",)
    assert settings.keywords == {"host": "db", "port": 5433, "user": "etl", "dbname": "dwh", "password": "0ur-word"}
    assert read_moodle({**OURS, "WINDOW_PGDATABASE": "lms"}).keywords["password"] == "0ur-word"
    assert "0ur-word" not in repr(settings)


def test_another_server_needs_a_password_of_its_own() -> None:
    expected = "not set in this environment: WINDOW_PGPASSWORD or WINDOW_PGPASSFILE"
    assert error_of(read_moodle, {**OURS, **OTHER}) == expected
    assert error_of(read_moodle, {**OURS, "WINDOW_PGUSER": "reader"}) == expected
    keywords = read_moodle({**OTHER, "WINDOW_PGPASSWORD": "the1rs"}).keywords
    assert keywords == {
        "host": "lms",
        "port": 5432,
        "user": "reader",
        "dbname": "moodle",
        "password": "the1rs",
        "hostaddr": "",
        "options": "",
    }


def test_another_server_needs_its_role_and_database() -> None:
    text = error_of(read_moodle, {**OURS, "WINDOW_PGHOST": "lms", "WINDOW_PGPASSWORD": "x"})
    assert text == "not set in this environment: WINDOW_PGUSER, WINDOW_PGDATABASE"
    assert "WINDOW_PGHOST" in error_of(read_moodle, {**OURS, "WINDOW_PGPORT": "5432"})


def test_a_password_file_must_be_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text("*:*:*:*:the1rs\n")
    file.chmod(0o644)
    env = {**OURS, **OTHER, "WINDOW_PGPASSFILE": str(file)}
    assert "chmod 600" in error_of(read_moodle, env)
    file.chmod(0o600)
    assert read_moodle(env).keywords["passfile"] == str(file)
    # An empty one keeps libpq from taking PGPASSWORD, which is another server's.
    assert read_moodle(env).keywords["password"] == ""
    assert mask("it is the1rs.", env) == f"it is {MASK}."


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("log", ("log",)),
        ("Moodle.Mdl_Log", ("moodle", "mdl_log")),
        ('"Moodle"."a.b"', ("Moodle", "a.b")),
        ('"a""b"', ('a"b',)),
        ("größe", ("größe",)),
    ],
)
def test_a_table_is_named_as_in_sql(text: str, names: tuple[str, ...]) -> None:
    assert read_moodle({**OURS, "WINDOW_MOODLE_TABLE": text}).table == names


@pytest.mark.parametrize("text", ["a.b.c", "a b", "a;b", '"', '""', "a.", ".a", "1a", "x" * 64, "a--", '"a"b'])
def test_what_is_no_table_is_told_without_its_value(text: str) -> None:
    error = error_of(read_moodle, {**OURS, "WINDOW_MOODLE_TABLE": text})
    assert error == "WINDOW_MOODLE_TABLE must be the name of a table, with or without its schema"


def test_guests_are_numbers() -> None:
    assert read_moodle(OURS).guests == (1,)
    assert read_moodle({**OURS, "WINDOW_MOODLE_GUESTS": "9, 1,"}).guests == (1, 9)
    assert "WINDOW_MOODLE_GUESTS must be" in error_of(read_moodle, {**OURS, "WINDOW_MOODLE_GUESTS": "guest"})


@pytest.mark.parametrize(
    ("given", "url", "is_folder"),
    [
        ("{folder}", "file://{folder}", True),
        ("file://{folder}", "file://{folder}", True),
        ("{folder}/one.log", "file://{folder}/one.log", False),
        ("https://logs.example/edx/", "https://logs.example/edx", True),
        ("https://logs.example/tracking.log", "https://logs.example/tracking.log", False),
    ],
)
def test_logs_are_in_a_folder_or_one_file(tmp_path: Path, given: str, url: str, *, is_folder: bool) -> None:
    (tmp_path / "one.log").write_bytes(b"")
    base = read_logs({"WINDOW_LOGS": given.format(folder=tmp_path)}).base
    assert (base.url, base.is_folder) == (url.format(folder=tmp_path), is_folder)


def test_names_in_a_path_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20ü#1?"
    folder.mkdir()
    assert read_logs({"WINDOW_LOGS": str(folder)}).base.path("x") == folder / "x"


@pytest.mark.parametrize("text", ["logs", "./logs", "ftp://h/", "https://", "https://h/?token=s3cret"])
def test_what_is_no_place_of_logs_is_told_without_its_value(text: str) -> None:
    error = error_of(read_logs, {"WINDOW_LOGS": text})
    assert error == "WINDOW_LOGS must be the absolute path of a folder or file, or an http, https or file URL of one"


def test_all_that_is_wrong_with_logs_is_told_at_once() -> None:
    error = error_of(read_logs, {"WINDOW_BROKEN_SHARE": "5%", "REFRESH_HTTP_TIMEOUT": "x", "REFRESH_CACHE_BYTES": "x"})
    assert error.startswith("not set in this environment: WINDOW_LOGS; ")
    for name in ("WINDOW_BROKEN_SHARE", "REFRESH_HTTP_TIMEOUT", "REFRESH_CACHE_BYTES"):
        assert f"{name} must be" in error


@pytest.mark.parametrize("value", ["-0.1", "1.1", "nan", "inf", "some"])
def test_a_share_is_from_0_to_1(value: str) -> None:
    env = {"WINDOW_LOGS": "/srv", "WINDOW_BROKEN_SHARE": value}
    assert error_of(read_logs, env) == "WINDOW_BROKEN_SHARE must be a number from 0 to 1"


def test_passwords_of_the_log_are_masked() -> None:
    env = {**OTHER, "WINDOW_PGPASSWORD": "the1rs-word", "WINDOW_LOGS": "https://ada:l0gs-word@logs.example/"}
    assert mask("the1rs-word and l0gs-word", env) == f"{MASK} and {MASK}"
    assert "l0gs-word" not in repr(read_logs({"WINDOW_LOGS": env["WINDOW_LOGS"]}))

"""Settings: all that is missing or wrong at once, by name, never with a value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refresh_assets.environment import SETTINGS
from refresh_assets.settings import (
    SettingsError,
    default_password_file,
    has_postgres_settings,
    read_home,
    read_list,
    read_postgres,
    read_settings,
    read_timezone,
)

NEEDED = {
    "PGHOST": "db.example",
    "PGPORT": "5432",
    "PGUSER": "loader",
    "PGDATABASE": "registry",
    "PGPASSWORD": "s3cr3t",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return the least that is needed, in a home folder without a password file."""
    return {**NEEDED, "HOME": str(tmp_path)}


def error_of(env: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(env)
    return str(caught.value)


# What is needed


def test_with_the_least_everything_else_has_its_default(env: dict[str, str]) -> None:
    settings = read_settings(env)
    assert (settings.postgres.host, settings.postgres.port) == ("db.example", 5432)
    assert (settings.postgres.user, settings.postgres.database) == ("loader", "registry")
    assert settings.postgres.password == "s3cr3t"
    assert settings.base.url == "https://critwire.com"
    assert settings.schema == "etl"
    assert (settings.http_timeout, settings.lock_timeout, settings.statement_timeout) == (300, 30, 3600)
    assert settings.timezone == "UTC"
    assert (settings.cache_files, settings.cache_bytes) == (20, 10_000_000_000)


def test_the_documented_defaults_are_the_ones_that_are_used(env: dict[str, str]) -> None:
    documented = {setting.name: setting.default for setting in SETTINGS}
    settings = read_settings(env)
    assert documented["LEARN_BASE"] == settings.base.url
    assert documented["REFRESH_SCHEMA"] == settings.schema
    assert documented["REFRESH_TIMEZONE"] == settings.timezone
    for name, value in [
        ("REFRESH_HTTP_TIMEOUT", settings.http_timeout),
        ("REFRESH_LOCK_TIMEOUT", settings.lock_timeout),
        ("REFRESH_STATEMENT_TIMEOUT", settings.statement_timeout),
        ("REFRESH_CACHE_FILES", settings.cache_files),
        ("REFRESH_CACHE_BYTES", settings.cache_bytes),
    ]:
        assert float(documented[name] or "") == value


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    text = error_of({"HOME": str(tmp_path)})
    expected = "PGHOST, PGPORT, PGUSER, PGDATABASE, PGPASSWORD or a password file"
    assert text == f"not set in this environment: {expected}"


def test_only_what_is_missing_is_named(env: dict[str, str]) -> None:
    del env["PGHOST"], env["PGPASSWORD"]
    assert error_of(env) == "not set in this environment: PGHOST, PGPASSWORD or a password file"


@pytest.mark.parametrize("name", ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE"])
@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_value_is_a_missing_one(env: dict[str, str], name: str, value: str) -> None:
    assert error_of({**env, name: value}) == f"not set in this environment: {name}"


def test_what_is_missing_and_what_is_wrong_are_told_together(env: dict[str, str]) -> None:
    del env["PGUSER"]
    text = error_of({**env, "PGPORT": "x", "LEARN_BASE": "ftp://h", "REFRESH_HTTP_TIMEOUT": "-1"})
    assert text.startswith("not set in this environment: PGUSER; ")
    for name in ("PGPORT", "LEARN_BASE", "REFRESH_HTTP_TIMEOUT"):
        assert f"{name} must be" in text


def test_no_value_is_ever_in_an_error(env: dict[str, str]) -> None:
    secret = "s3cr3t~value"
    names = ("PGPORT", "LEARN_BASE", "REFRESH_TIMEZONE", "REFRESH_HTTP_TIMEOUT", "REFRESH_CACHE_FILES")
    text = error_of({**env, **dict.fromkeys(names, secret), "REFRESH_SCHEMA": f"pg_{secret}"})
    assert secret not in text
    for name in (*names, "REFRESH_SCHEMA"):
        assert name in text


def test_a_password_is_not_shown_by_repr(env: dict[str, str]) -> None:
    assert "s3cr3t" not in repr(read_settings({**env, "LEARN_BASE": "https://me:s3cr3t2@h"}))


def test_the_settings_of_the_database_can_be_read_alone(env: dict[str, str]) -> None:
    assert read_postgres({**env, "LEARN_BASE": "nonsense"}).database == "registry"
    with pytest.raises(SettingsError, match="PGHOST"):
        read_postgres({})


# Password files


@pytest.fixture
def password_file(env: dict[str, str], tmp_path: Path) -> Path:
    """Return a sound password file at its usual place, and take the password out of the environment."""
    del env["PGPASSWORD"]
    path = tmp_path / ".pgpass"
    path.write_text("*:*:*:*:s3cr3t\n")
    path.chmod(0o600)
    return path


def test_a_password_file_at_its_usual_place_will_do(env: dict[str, str], password_file: Path) -> None:
    assert read_settings(env).postgres.password is None


def test_an_empty_password_is_none(env: dict[str, str], password_file: Path) -> None:
    assert read_settings({**env, "PGPASSWORD": ""}).postgres.password is None


def test_a_password_file_elsewhere_will_do(env: dict[str, str], password_file: Path) -> None:
    named = password_file.rename(password_file.with_name("elsewhere"))
    assert read_settings({**env, "PGPASSFILE": str(named)}).postgres.password is None


def test_a_named_password_file_that_is_absent_is_told(env: dict[str, str], password_file: Path) -> None:
    text = error_of({**env, "PGPASSFILE": str(password_file) + "x"})
    assert text.endswith("PGPASSWORD or a password file (the file that PGPASSFILE names does not exist)")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666])
def test_a_password_file_that_is_open_to_others_is_told_as_postgres_ignores_it(
    env: dict[str, str], password_file: Path, mode: int
) -> None:
    password_file.chmod(mode)
    assert "chmod 600" in error_of(env)


def test_a_folder_is_no_password_file(env: dict[str, str], password_file: Path) -> None:
    password_file.unlink()
    password_file.mkdir()
    assert "cannot be read" in error_of(env)


def test_a_password_wins_over_a_password_file_that_is_of_no_use(env: dict[str, str], password_file: Path) -> None:
    password_file.chmod(0o666)
    assert read_settings({**env, "PGPASSWORD": "other"}).postgres.password == "other"


def test_the_usual_place_is_in_the_home_folder(tmp_path: Path) -> None:
    assert default_password_file({"HOME": str(tmp_path)}) == tmp_path / ".pgpass"
    assert default_password_file({}).name == ".pgpass"


# Numbers


@pytest.mark.parametrize("value", ["0", "-1", "65536", "x", "5432.0", "5_432", "+5432", "٥٤٣٢", "1" * 30])
def test_what_is_no_port_is_told(env: dict[str, str], value: str) -> None:
    assert error_of({**env, "PGPORT": value}) == "PGPORT must be a port number"


@pytest.mark.parametrize("name", ["REFRESH_HTTP_TIMEOUT", "REFRESH_LOCK_TIMEOUT", "REFRESH_STATEMENT_TIMEOUT"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e9", "0.0001", "5 s", "soon"])
def test_what_is_no_time_is_told(env: dict[str, str], name: str, value: str) -> None:
    assert error_of({**env, name: value}) == f"{name} must be a number of seconds from 0.001 to 2000000"


@pytest.mark.parametrize(("value", "seconds"), [("5", 5), (" 2.5 ", 2.5), ("1e3", 1000), ("", 300)])
def test_a_time_is_read_in_seconds(env: dict[str, str], value: str, seconds: float) -> None:
    assert read_settings({**env, "REFRESH_HTTP_TIMEOUT": value}).http_timeout == seconds


@pytest.mark.parametrize("name", ["REFRESH_CACHE_FILES", "REFRESH_CACHE_BYTES"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1_000"])
def test_what_is_no_count_is_told(env: dict[str, str], name: str, value: str) -> None:
    assert error_of({**env, name: value}) == f"{name} must be a whole number above 0"


# Texts


def test_the_base_is_trimmed(env: dict[str, str]) -> None:
    assert read_settings({**env, "LEARN_BASE": " file:///srv/pub/\n"}).base.url == "file:///srv/pub"


@pytest.mark.parametrize("value", ["ftp://h", "h", "https://", "https://h?token=s3cr3t-1"])
def test_what_is_no_base_is_told_without_its_value(env: dict[str, str], value: str) -> None:
    text = error_of({**env, "LEARN_BASE": value})
    assert text.startswith("LEARN_BASE must ")
    assert "s3cr3t-1" not in text


@pytest.mark.parametrize("value", ["public", "Etl", 'a "quoted" name', " blanks ", "é" * 31, "x" * 63, "pgfoo"])
def test_a_schema_may_have_any_name_that_postgres_keeps(env: dict[str, str], value: str) -> None:
    assert read_settings({**env, "REFRESH_SCHEMA": value}).schema == value


@pytest.mark.parametrize(
    "value", ["x" * 64, "é" * 32, "pg_x", "information_schema", "dagster", "a\nb", os.fsdecode(b"\xff")]
)
def test_another_name_of_a_schema_is_told(env: dict[str, str], value: str) -> None:
    assert error_of({**env, "REFRESH_SCHEMA": value}).startswith("REFRESH_SCHEMA must ")


@pytest.mark.parametrize("value", ["Europe/Berlin", " UTC ", "America/New_York"])
def test_a_time_zone_is_taken_by_its_iana_name(env: dict[str, str], value: str) -> None:
    assert read_timezone({"REFRESH_TIMEZONE": value}) == value.strip()
    assert read_settings({**env, "REFRESH_TIMEZONE": value}).timezone == value.strip()


@pytest.mark.parametrize("value", ["Mars/Olympus", "America", "../etc/passwd", "/etc/passwd", "Monday 04:17"])
def test_what_is_no_time_zone_is_told(env: dict[str, str], value: str) -> None:
    assert error_of({**env, "REFRESH_TIMEZONE": value}).startswith("REFRESH_TIMEZONE must be an IANA time zone")
    with pytest.raises(SettingsError, match="REFRESH_TIMEZONE"):
        read_timezone({"REFRESH_TIMEZONE": value})


# Lists


@pytest.mark.parametrize("value", ["CC0 1.0,CC BY 4.0", " CC BY 4.0 ,, CC0 1.0 ,", "CC BY 4.0,CC0 1.0,CC BY 4.0"])
def test_a_list_is_trimmed_and_sorted_without_empty_items_and_repetitions(value: str) -> None:
    assert read_list("REFRESH_LICENSES", {"REFRESH_LICENSES": value}) == ("CC BY 4.0", "CC0 1.0")


def test_a_list_that_is_unset_has_its_default() -> None:
    assert read_list("REFRESH_LICENSES", {}) == ("CC BY 4.0", "CC0 1.0")


@pytest.mark.parametrize("value", ["", " ", ",", " , ,"])
def test_an_empty_list_is_an_error(value: str) -> None:
    with pytest.raises(SettingsError, match="REFRESH_LICENSES lists no value"):
        read_list("REFRESH_LICENSES", {"REFRESH_LICENSES": value})


def test_a_list_without_default_must_be_set() -> None:
    with pytest.raises(SettingsError, match="not set in this environment: MY_LIST"):
        read_list("MY_LIST", {})


# Places


def test_the_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_home({"REFRESH_HOME": "here/../there"}) == tmp_path / "there"


def test_without_a_setting_there_is_a_home_all_the_same(env: dict[str, str]) -> None:
    assert read_home({}).is_absolute()
    assert read_settings({**env, "REFRESH_HOME": " "}).home == read_home({})


def test_the_home_of_nobody_is_told(env: dict[str, str]) -> None:
    assert error_of({**env, "REFRESH_HOME": "~no-such-account/x"}) == "REFRESH_HOME must be a folder of this machine"


@pytest.mark.parametrize("name", ["PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE"])
def test_any_setting_that_points_at_a_server_counts(name: str) -> None:
    assert has_postgres_settings({name: "x"})
    assert not has_postgres_settings({name: " ", "PGPASSWORD": "x", "PGSSLMODE": "require"})


def test_a_list_that_is_not_utf_8_is_told_by_its_name() -> None:
    with pytest.raises(SettingsError, match=r"^REFRESH_LICENSES must be UTF-8$"):
        read_list("REFRESH_LICENSES", {"REFRESH_LICENSES": os.fsdecode(b"CC0 1.0,caf\xe9")})

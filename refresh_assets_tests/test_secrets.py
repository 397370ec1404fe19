"""No password in any text, however it is written there; the rest stays readable."""

from __future__ import annotations

import base64
import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
import sqlalchemy
import sqlalchemy.exc

from refresh_assets.errors import RefreshError
from refresh_assets.secrets import MASK, mask, masked, masking

PASSWORD = "p@ss w/rd\\\"'ü&1+"
ENV = {
    "HOME": "/nonexistent",
    "PGHOST": "db.example",
    "PGPORT": "5432",
    "PGUSER": "loader",
    "PGDATABASE": "registry",
    "PGPASSWORD": PASSWORD,
}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "written",
    [
        PASSWORD,
        quote(PASSWORD),
        quote(PASSWORD, safe=""),
        quote(PASSWORD, safe="").lower(),
        quote_plus(PASSWORD),
        repr(PASSWORD)[1:-1],
        repr({"x": PASSWORD}).split(": ")[1][1:-2],
        json.dumps(PASSWORD)[1:-1],
        json.dumps(PASSWORD, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(PASSWORD))[3:-3],
        quote(quote(PASSWORD)),
        # Each of these writes some characters otherwise and leaves others.
        sqlalchemy.URL.create("postgresql", "loader", PASSWORD, "h").render_as_string(hide_password=False)[20:-2],
        quote(PASSWORD, safe=" +'"),
        PASSWORD.replace("'", "''"),
        shlex.quote(PASSWORD)[1:-1],
        b64(PASSWORD),
        b64(f"loader:{PASSWORD}"),
        b64(f"\0loader\0{PASSWORD}"),
    ],
)
def test_a_password_is_masked_in_every_writing(written: str) -> None:
    assert mask(f"before <{written}> after", ENV) == f"before <{MASK}> after"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_password_within_other_base64_does_not_stay_readable(before: str) -> None:
    text = mask(b64(f"{before}{PASSWORD}, and more"), ENV)
    assert MASK in text
    assert len(text) < len(b64(f"{before}, and more")) + 8


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("PGPASSWORD", "Tr0ub4dor", "Tr0ub4dor"),
        ("SMTP_PASSWORD", "Tr0ub4dor", "Tr0ub4dor"),
        ("LEARN_BASE", "https://me:Tr0ub%40dor@data.example", "Tr0ub@dor"),
        ("LEARN_BASE", "https://me:Tr0ub%40dor@data.example", "Tr0ub%40dor"),
        ("DAGSTER_POSTGRES_URL", "postgresql+psycopg2://me:Tr0ub4dor@h/db", "Tr0ub4dor"),
        ("DAGSTER_POSTGRES_URL", "postgresql://me@h/db?sslmode=require&password=Tr0ub%264dor", "Tr0ub&4dor"),
        ("LEARN_BASE", "https://ghp_Tr0ub4dor@data.example", "ghp_Tr0ub4dor"),
        ("ALERT_PING_URL", "https://watch.example/ping?key=Tr0ub4dor", "Tr0ub4dor"),
        ("PGPASSWORD", "Tr0ub4dor\n", "Tr0ub4dor"),
    ],
)
def test_every_setting_that_holds_a_password_is_known(name: str, value: str, secret: str) -> None:
    assert mask(f"echo {secret}.", {"HOME": "/nonexistent", name: value}) == f"echo {MASK}."


def test_a_password_in_a_file_for_mail_is_known(tmp_path: Path) -> None:
    (tmp_path / "smtp").write_text("Tr0ub4dor\n")
    assert mask("echo Tr0ub4dor", {"SMTP_PASSWORD_FILE": str(tmp_path / "smtp")}) == f"echo {MASK}"


PASSWORD_FILE = r"""
# a comment:*:*:*:commented
db.example:5432:registry:loader:first\:\\one
db.example:*:*:*:second-one:ignored
*:*:*:*:third-one
other.example:*:*:*:fourth-one
localhost:*:*:*:fifth-one
too:short
*:*:*:*:sixth-one\
"""


def test_the_lines_of_the_password_file_that_match_are_known(tmp_path: Path) -> None:
    path = tmp_path / "pgpass"
    path.write_text(PASSWORD_FILE)
    env = {**ENV, "PGPASSFILE": str(path)}
    text = mask(r"first:\one second-one third-one fourth-one fifth-one commented sixth-one\\", env)
    assert text == f"{MASK} {MASK} {MASK} fourth-one fifth-one commented {MASK}"


def test_only_newlines_end_a_line_of_the_password_file(tmp_path: Path) -> None:
    (tmp_path / "pgpass").write_text("*:*:*:*:sec\x85ret\u2028rest\x0c1\r\n", encoding="utf-8", newline="")
    assert mask("sec\x85ret\u2028rest\x0c1", {**ENV, "PGPASSFILE": str(tmp_path / "pgpass")}) == MASK


def test_a_line_for_one_of_several_hosts_is_known(tmp_path: Path) -> None:
    (tmp_path / "pgpass").write_text("two.example:*:*:*:second-host\n")
    assert (
        mask("second-host", {**ENV, "PGHOST": "one.example,two.example", "PGPASSFILE": str(tmp_path / "pgpass")})
        == MASK
    )


def test_a_socket_matches_localhost_in_the_password_file(tmp_path: Path) -> None:
    path = tmp_path / "pgpass"
    path.write_text(PASSWORD_FILE)
    assert mask("fifth-one", {**ENV, "PGHOST": "/run/postgresql", "PGPASSFILE": str(path)}) == MASK


def test_the_password_file_of_the_home_folder_is_known(tmp_path: Path) -> None:
    (tmp_path / ".pgpass").write_text("*:*:*:*:at-home-1\n")
    assert mask("at-home-1", {"HOME": str(tmp_path)}) == MASK


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, Path.touch, lambda path: path.write_bytes(b"\xff:\0\n" * 9)])
def test_a_password_file_that_is_none_does_no_harm(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "pgpass")
    assert mask("text", {"PGPASSFILE": str(tmp_path / "pgpass")}) == "text"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:pw@h/db", "postgresql://u:***@h/db"),
        ("postgresql+psycopg2://u:p@w@h:5432/db?x=1", "postgresql+psycopg2://u:***@h:5432/db?x=1"),
        ("postgresql://u:p/w@h/db", "postgresql://u:***@h/db"),
        ("redis://:pw@h", "redis://:***@h"),
        ("GET https://u:pw@h/a, https://v:pw2@i/b", "GET https://u:***@h/a, https://v:***@i/b"),
        ('{"u": "http://h:80/a", "m":"a@b"}', '{"u": "http://h:80/a", "m":"a@b"}'),
        ("http://127.0.0.1:3000/runs/1 mail me@data.example", "http://127.0.0.1:3000/runs/1 mail me@data.example"),
        ("https://u@h/", "https://u@h/"),
        ("postgresql://u:***@h/db", "postgresql://u:***@h/db"),
    ],
)
def test_any_login_in_an_address_loses_its_password_and_nothing_else(text: str, shown: str) -> None:
    assert mask(text, {"HOME": "/nonexistent"}) == shown


def test_a_short_password_is_masked_only_where_it_stands_alone() -> None:
    assert mask("a database at a=a", {"PGPASSWORD": "a", "HOME": "/nonexistent"}) == "*** database at ***=***"


def test_a_short_password_that_is_no_word_is_masked_anywhere_and_in_every_writing() -> None:
    assert mask(r"xp@ss1 \np%40ss1", {"PGPASSWORD": "p@ss1", "HOME": "/nonexistent"}) == rf"x{MASK} \n{MASK}"


@pytest.mark.parametrize(
    ("name", "url", "text"),
    [
        ("LEARN_BASE", "https://data.example/?author=1", "1 of 2 tables failed"),
        ("DAGSTER_POSTGRES_URL", "postgresql://h/db?require_auth=password", "password authentication failed"),
        ("DAGSTER_POSTGRES_URL", "postgresql://h/db?sslkey=/etc/ssl/key.pem", "no such file: /etc/ssl/key.pem"),
        ("LEARN_BASE", "https://data@data.example", "the data of today"),
    ],
)
def test_what_is_no_secret_of_an_address_stays_readable(name: str, url: str, text: str) -> None:
    assert mask(text, {"HOME": "/nonexistent", name: url}) == text


def test_without_passwords_a_text_stays_as_it_is() -> None:
    assert mask("PGPASSWORD is not set", {"HOME": "/nonexistent"}) == "PGPASSWORD is not set"


def test_a_long_text_is_masked_quickly() -> None:
    text = "x" * 2_000_000 + f"://u:{PASSWORD}"
    assert PASSWORD not in mask(text, ENV)


@pytest.mark.parametrize("unit", ["\\", "'", '"', "%25", "&amp;", "\\'", "'\"", "\\\\n"])
def test_a_text_of_nothing_but_what_escapes_are_made_of_is_masked_quickly(unit: str) -> None:
    began = time.process_time()
    rows = ("\\", "'", '"', "%&", "\\'", "'\"", "\\\n")
    for password in (PASSWORD, *(row * 9 + "x" for row in rows)):
        assert mask(unit * 50_000, {**ENV, "PGPASSWORD": password}) == unit * 50_000
    assert time.process_time() - began < 20


def test_the_text_of_an_exception_is_masked() -> None:
    assert masked(ValueError(f"with {PASSWORD}"), ENV) == f"with {MASK}"
    assert masked(ValueError(), ENV) == "ValueError"


def test_of_an_error_of_sqlalchemy_the_drivers_words_are_told() -> None:
    error = sqlalchemy.exc.OperationalError("INSERT INTO runs …", {"body": "x" * 9000}, OSError("the server went away"))
    assert masked(error, ENV) == "the server went away"


def test_a_password_among_the_parameters_of_an_error_of_sqlalchemy_is_found() -> None:
    error = sqlalchemy.exc.OperationalError("SELECT 1", {"body": PASSWORD}, OSError("the server went away"))
    with pytest.raises(RefreshError, match="OperationalError: the server went away"), masking(ENV):
        raise error


def test_an_exception_that_holds_a_password_is_replaced() -> None:
    with pytest.raises(RefreshError) as caught, masking(ENV):
        raise ValueError(f"postgresql://loader:{quote(PASSWORD)}@db.example/registry")
    assert str(caught.value) == f"ValueError: postgresql://loader:{MASK}@db.example/registry"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_password_in_a_cause_is_found() -> None:
    error = RefreshError("cannot connect")
    error.__cause__ = OSError(PASSWORD)
    with pytest.raises(RefreshError) as caught, masking(ENV):
        raise error
    assert str(caught.value) == f"cannot connect; caused by OSError: {MASK}"


def test_a_password_in_a_hidden_context_is_found() -> None:
    error = RefreshError("cannot connect")
    error.__context__ = OSError(PASSWORD)
    with pytest.raises(RefreshError) as caught, masking(ENV):
        raise error from None
    assert caught.value.__context__ is None


def test_a_password_that_only_repr_shows_is_found() -> None:
    class QuietError(Exception):
        def __str__(self) -> str:
            return "quiet"

    with pytest.raises(RefreshError, match="QuietError: quiet"), masking(ENV):
        raise QuietError(PASSWORD)


def test_an_exception_without_a_password_passes_as_it_is() -> None:
    error = ValueError("plain")
    with pytest.raises(ValueError) as caught, masking(ENV):
        raise error
    assert caught.value is error


def test_an_interrupt_passes_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), masking(ENV):
        raise KeyboardInterrupt(PASSWORD)


def test_without_an_exception_nothing_happens() -> None:
    with masking(ENV):
        pass

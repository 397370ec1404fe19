"""What docs/requests.md says is so: its programs run, its states and tables are those of the code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from refresh_assets.postgres.queries import queries
from refresh_assets.requests import client
from refresh_assets.requests.settings import GROWTH, LONGEST_DELAY, read_requests
from refresh_assets.requests.task import LARGEST_DATA, LONGEST_NAME, TASK
from refresh_assets.settings import SettingsError
from refresh_assets_tests.documents import DOCS, bare, code_blocks, tables
from refresh_assets_tests.requests_fixtures import Counter

TEXT = (DOCS / "requests.md").read_text(encoding="utf-8")


def column(name: str) -> list[str]:
    """Return the cells of the one table with such a column."""
    (found,) = [table for table in tables(TEXT) if name in table[0]]
    return [bare(row[name]) for row in found]


def test_the_programs_in_python_run(counter: Counter) -> None:
    space: dict[str, Any] = {}
    for program in code_blocks(TEXT, "python"):
        exec(program, space)  # noqa: S102 - what the reader copies
    assert counter.states() == {"after-import-17": "waiting"}
    assert counter.get("tonight").state == "done"


def test_the_statement_for_psql_asks(counter: Counter) -> None:
    (statement,) = code_blocks(TEXT, "sql")
    counter.sql(statement)
    assert counter.get("tonight").data == {"tables": ["datasets"]}


def test_every_function_of_the_client_is_documented() -> None:
    ours = {"schedule_if_not_exists", "schedule_or_reschedule", "reschedule", "cancel", "get", "history", "list"}
    assert {re.findall(r"^\w+", cell)[0] for cell in column("function")} == ours
    assert ours <= set(vars(client))


def test_every_table_is_documented() -> None:
    statements = queries("refresh_assets.requests", "sql/create.sql").values()
    made = re.findall(r"CREATE TABLE IF NOT EXISTS \{schema\}\.(\w+)", " ".join(x.as_string(None) for x in statements))
    assert column("table") == made


def test_every_state_is_documented() -> None:
    assert column("state") == ["waiting", "running", "done", "failed", "cancelled"]


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"1 to {LONGEST_NAME} characters, the data at most {LARGEST_DATA // 1024} KB" in TEXT
    assert f"`task_name` is `{TASK}`" in TEXT
    assert (GROWTH, LONGEST_DELAY) == (4, 3600)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REFRESH_REQUESTS_SCHEMA", "pg_mine"),
        ("REFRESH_REQUESTS_SCHEMA", "etl"),
        ("REFRESH_REQUESTS_SCHEMA", "dagster"),
        ("REFRESH_REQUESTS_SCHEMA", "refresh_daemon"),
        ("REFRESH_REQUESTS_SCHEMA", "x" * 64),
        ("REFRESH_REQUEST_ATTEMPTS", "0"),
        ("REFRESH_REQUEST_ATTEMPTS", "often"),
        ("REFRESH_REQUEST_RETRY", "-1"),
        ("REFRESH_REQUEST_INTERVAL", "soon"),
    ],
)
def test_an_unusable_setting_is_named_without_its_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must") as caught:
        read_requests({name: value})
    assert value not in str(caught.value).replace("REFRESH_SCHEMA", "") or len(value) < 4


def test_the_settings_have_their_documented_defaults() -> None:
    found = read_requests({})
    assert (found.schema, found.interval, found.attempts, found.delay) == ("refresh_requests", 10, 5, 60)

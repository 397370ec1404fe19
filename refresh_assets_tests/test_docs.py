"""The documents say what the product does: settings, commands, checks, history, links."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from refresh_assets.cli import main
from refresh_assets.environment import SETTINGS, Setting
from refresh_assets.postgres.queries import queries
from refresh_assets.published.checks import FILE_CHECKS, TABLE_CHECKS
from refresh_assets.published.table_report import TableReport
from refresh_assets.windows.checks import CHECKS as WINDOW_CHECKS
from refresh_assets.windows.report import up_to_date
from refresh_assets_tests.documents import DOCS, ROOT, bare, tables

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
OUTCOMES = {"loaded", "unchanged", "locked", "failed"}
LINE = 200


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def row_of(setting: Setting) -> str:
    """Return the line of the document's table on a setting."""
    meaning = setting.meaning[0].upper() + setting.meaning[1:].rstrip(".") + "."
    default = "none" if setting.default is None else f"`{setting.default}`"
    return f"| `{setting.name}` | {default} | {meaning}{' Secret.' if setting.secret else ''} |"


def test_every_setting_is_documented_as_it_is_in_code() -> None:
    lines = text_of("settings.md").splitlines()
    begin = lines.index("| setting | default | meaning |") + 2
    documented = lines[begin : lines.index("", begin)]
    assert documented == [row_of(setting) for setting in SETTINGS]


def test_the_variables_of_the_libraries_are_none_of_ours_and_hold_those_that_the_settings_mention() -> None:
    documented = {name for row in tables(text_of("settings.md"))[1] for name in re.findall(r"`(\w+)`", row["variable"])}
    mentioned = {name for s in SETTINGS for name in re.findall(r"\b(?:[A-Z]+_PROXY|SSL_CERT_\w+)\b", s.meaning)}
    assert mentioned <= documented
    assert documented.isdisjoint(setting.name for setting in SETTINGS)


def section(command: str) -> str:
    """Return what docs/commands.md says of a command."""
    found = re.search(
        rf"^## `refresh-assets {command}`\n(.*?)(?=^## |\Z)", text_of("commands.md"), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/commands.md has no section on {command}"
    return found[1]


def test_every_command_is_documented_and_no_other() -> None:
    assert re.findall(r"^## `refresh-assets (\S+)`$", text_of("commands.md"), re.MULTILINE) == list(main.commands)


@pytest.mark.parametrize("name", list(main.commands))
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    command = main.commands[name]
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    options = [option for command in commands for option in command.params if isinstance(option, click.Option)]
    documented = [bare(row["option"]) for table in tables(section(name)) for row in table if "option" in row]
    assert documented == [option.opts[0] for option in options]


@pytest.mark.parametrize("group", [main, *(c for c in main.commands.values() if isinstance(c, click.Group))])
def test_a_list_of_commands_fits_a_terminal_of_80_columns(group: click.Group) -> None:
    listed = CliRunner().invoke(group, ["--help"]).output.partition("Commands:")[2]
    assert len(listed.splitlines()) == len(group.commands) + 1
    assert "..." not in listed


@pytest.mark.parametrize("name", list(main.commands))
def test_every_command_says_how_it_exits(name: str) -> None:
    assert "Exit status: 0" in section(name)


def test_every_key_of_the_json_output_is_documented() -> None:
    keys = TableReport("datasets", "loaded").as_json()
    assert [key for key in keys if f"`{key}`" not in section("run")] == []
    keys = up_to_date().as_json()
    assert [key for key in keys if f"`{key}`" not in section("windows")] == []


def test_every_target_of_the_makefile_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    documented = {bare(row["target"]).removeprefix("make ") for row in tables(text_of("commands.md"))[-1]}
    assert documented == set(phony.split()) - {"help", "FORCE"}


def test_every_check_is_documented() -> None:
    rows = next(table for table in tables(text_of("refresh.md")) if "check" in table[0])
    assert [(bare(row["asset"]), bare(row["check"])) for row in rows] == [
        *(("<name>_csv", check.name) for check in FILE_CHECKS),
        *(("<name>_table", check.name) for check in TABLE_CHECKS),
    ]
    rows = next(table for table in tables(text_of("windows.md")) if "check" in table[0])
    assert [(bare(row["check"]), row["meaning"]) for row in rows] == [(x.name, x.description) for x in WINDOW_CHECKS]


def test_every_column_of_the_history_is_documented() -> None:
    statement = queries("refresh_assets.published.table", "sql/create.sql")["loads"].as_string(None)
    columns = re.findall(r"^    (\w+) ", statement, re.MULTILINE)
    assert columns
    rows = next(table for table in tables(text_of("refresh.md")) if bare(table[0].get("column", "")) == "load_id")
    assert [bare(row["column"]) for row in rows] == columns


@pytest.mark.parametrize("document", [ROOT / "README.md", DOCS / "refresh.md"], ids=lambda path: path.name)
def test_every_outcome_is_explained(document: Path) -> None:
    rows = next(table for table in tables(document.read_text(encoding="utf-8")) if "outcome" in table[0])
    assert {bare(row["outcome"]) for row in rows} == OUTCOMES


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_within_the_project_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    within = [target for target in targets if "://" not in target]
    assert [target for target in within if not (document.parent / target).exists()] == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in DOCS.glob("*.md") if f"(docs/{path.name})" not in readme] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_prose_is_written_in_lines_of_some_length(document: Path) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > LINE and not line.startswith("|")] == []

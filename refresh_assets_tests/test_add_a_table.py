"""docs/add-a-table.md, followed to the letter in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from refresh_assets.published.component import DeclaredColumn, DeclaredFilter, PublishedTable
from refresh_assets_tests.documents import DOCS, ROOT, bare, code_blocks, tables
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows

PAGE = (DOCS / "add-a-table.md").read_text(encoding="utf-8")
# What a field without a given default is called in the document.
UNSET = {"required": PydanticUndefined, "none": (None, []), "empty": "", "the folder's name": None, "as `type`": None}


class Newcomer:
    """Somebody with a copy of the checkout and a database, who does what the page says."""

    def __init__(self, checkout: Path, shop: Shop) -> None:
        self.checkout, self.shop = checkout, shop
        shutil.copytree(
            ROOT / "refresh_assets", checkout / "refresh_assets", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in ("dagster.yaml", "workspace.yaml"):
            shutil.copy(ROOT / name, checkout)
        program = checkout / ".venv" / "bin" / "refresh-assets"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m refresh_assets.cli "$@"\n')
        program.chmod(0o755)

    def publish(self) -> None:
        self.shop.publish(dataset_rows(2))
        self.shop.publish_file("dataset_rights.csv", csv_text(rights_rows(2), RIGHTS_HEADER), 2)
        (content,) = code_blocks(PAGE, "csv")
        self.shop.publish_file("publishers.csv", content, content.count("\n") - 1)

    def write_declaration(self, transform: str = "") -> None:
        (path,) = re.findall(r"^\*\*2\.\*\* Write `(\S+)`:", PAGE, re.MULTILINE)
        text = code_blocks(PAGE, "yaml")[0]
        for line in transform.splitlines():
            name = re.search(r"name: (\w+)", line)
            assert name
            text = re.sub(rf"^ +- {{ name: {name[1]}, .*\n", "", text, flags=re.MULTILINE) + line + "\n"
        (self.checkout / path).write_text(text, encoding="utf-8")

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        env = {**self.shop.env, "PATH": os.environ["PATH"]}
        return subprocess.run(
            ["sh", "-c", command], cwd=self.checkout, env=env, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def newcomer(shop: Shop, tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path / "checkout", shop)


@pytest.mark.slow
def test_what_the_page_says_gives_a_table_with_rows_and_checks(newcomer: Newcomer) -> None:
    newcomer.publish()
    make_folder, refresh = code_blocks(PAGE, "sh")
    assert newcomer.type(make_folder).returncode == 0
    newcomer.write_declaration()
    check, run = refresh.splitlines()
    checked = newcomer.type(check)
    assert checked.returncode == 0, checked
    assert "publishers.csv with 3 rows" in checked.stdout
    done = newcomer.type(run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" INFO refresh: publishers: first load: loaded 3 rows\n")
    rows = newcomer.shop.rows("SELECT name, country, since FROM etl.publishers ORDER BY name")
    assert rows == [
        ("Bernice Pauahi Bishop Museum", "US", date(1889, 12, 19)),
        ("Lyman Entomological Museum", "CA", date(1914, 1, 1)),
        ("Western Foundation of Vertebrate Zoology", None, None),
    ]
    checks = newcomer.shop.rows(
        "SELECT asset_key, count(*), bool_and(execution_status = 'SUCCEEDED') FROM dagster.asset_check_executions "
        "GROUP BY 1 ORDER BY 1"
    )
    assert checks == [('["publishers_csv"]', 2, True), ('["publishers_table"]', 7, True)]


@pytest.mark.slow
def test_the_transform_of_the_page_works_as_it_says(newcomer: Newcomer) -> None:
    newcomer.publish()
    make_folder, refresh = code_blocks(PAGE, "sh")
    newcomer.type(make_folder)
    newcomer.write_declaration(code_blocks(PAGE, "yaml")[1])
    done = newcomer.type(refresh.splitlines()[1])
    assert done.returncode == 0, done
    assert newcomer.shop.rows("SELECT country, since, label FROM etl.publishers ORDER BY name LIMIT 1") == [
        ("US", 1889, "Bernice Pauahi Bishop Museum, US")
    ]


@pytest.mark.parametrize(
    ("place", "model"),
    [(0, PublishedTable), (1, DeclaredColumn), (2, DeclaredFilter)],
    ids=["table", "column", "filter"],
)
def test_every_field_is_on_the_page_with_its_default(place: int, model: type[BaseModel]) -> None:
    rows = tables(PAGE)[place]
    assert [bare(row["field"]) for row in rows] == list(model.model_fields)
    for row in rows:
        default: Any = model.model_fields[bare(row["field"])].get_default(call_default_factory=True)
        if row["default"] in UNSET:
            meant: Any = UNSET[row["default"]]
            assert default in meant if isinstance(meant, tuple) else default == meant, row
        else:
            assert bare(row["default"]) == str(default).lower(), row

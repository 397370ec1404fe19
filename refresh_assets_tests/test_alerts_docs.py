"""The promises of docs/alerts.md are tests that exist, and what it shows is what is sent."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from refresh_assets_tests.documents import DOCS, tables

TEXT = (DOCS / "alerts.md").read_text(encoding="utf-8")
ROWS = tables(TEXT)[0]
PROMISES = Path(__file__).with_name("test_alerts_promises.py")
# What a row may wait for.
LATER = {"waits for the windows"}


def names_in(*paths: Path) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    names = {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("test_")}


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", cell))


def test_every_promise_names_a_test_that_exists_or_what_it_waits_for() -> None:
    known = names_in(*Path(__file__).parent.glob("test_*.py"))
    for row in ROWS:
        assert (named(row["test"]) and named(row["test"]) <= known) or row["test"] in LATER, row


def test_every_test_of_a_promise_is_named() -> None:
    promised = {name for row in ROWS for name in named(row["test"])}
    assert names_in(PROMISES) - promised == {"test_nothing_was_told_twice"}


def test_every_promise_has_a_time() -> None:
    assert [row for row in ROWS if not row["told within"] and "200 runs" not in row["what happens"]] == []

"""What a request asks for becomes a plan, or is refused with words that say why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from refresh_assets.requests.kinds import Kind, Plan, planned
from refresh_assets.requests.tables import tables_kind
from refresh_assets.requests.task import BadRequestError, decode
from refresh_assets_tests.requests_fixtures import NOON

SHA = "AB" * 32
TABLES = tables_kind("weekly_refresh", {"datasets": True, "dataset_rights": False}, "manifest")
CHAIRS = Kind("chairs", frozenset({"legs"}), lambda _data, _now: Plan("carpentry", {"chair": ("chair",)}))
KINDS = {kind.name: kind for kind in (TABLES, CHAIRS)}


def plan(data: dict[str, Any]) -> Plan:
    return planned(data, KINDS, NOON)


def test_without_a_word_it_is_all_tables_with_what_they_start_from() -> None:
    found = plan({})
    assert found.job == "weekly_refresh"
    assert dict(found.parts) == {
        "dataset_rights": ("dataset_rights_csv", "dataset_rights_table"),
        "datasets": ("datasets_csv", "datasets_table"),
    }
    assert (found.assets, dict(found.config)) == (("manifest",), {})


def test_the_options_beside_the_tables_hold_for_all_of_them_and_those_of_a_table_for_it() -> None:
    found = plan({"tables": {"datasets": {"allowed": ["CC0 1.0"], "sha256": SHA}, "dataset_rights": None}} | SHRINK)
    assert found.config == {
        "ops": {
            "datasets_table": {"config": {"accept_shrink": True, "allowed": ["CC0 1.0"]}},
            "datasets_csv": {"config": {"sha256": SHA.lower()}},
            "dataset_rights_table": {"config": {"accept_shrink": True}},
        }
    }
    assert found.config_of(["manifest", "dataset_rights_table"]) == {
        "ops": {"dataset_rights_table": {"config": {"accept_shrink": True}}}
    }


SHRINK = {"accept_shrink": True}


def test_what_is_done_is_not_left() -> None:
    assert plan({}).left(frozenset({"datasets"})) == ["dataset_rights"]


def test_a_kind_is_known_by_its_name_or_by_its_keys() -> None:
    assert plan({"kind": "chairs"}).job == "carpentry"
    assert plan({"legs": 4}).job == "carpentry"
    assert plan({"kind": "tables"}).job == "weekly_refresh"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"tables": ["nowhere"]}, "no such table: nowhere; declared are dataset_rights, datasets"),
        ({"tables": []}, "at least one table"),
        ({"tables": {}}, "at least one table"),
        ({"tables": 7}, "at least one table"),
        ({"tables": [1]}, "names of tables"),
        ({"table": "datasets"}, "a request for tables has no 'table'; it may have accept_shrink, allowed, sha256"),
        ({"kind": "tables", "legs": 4}, "has no 'legs'"),
        ({"kind": "stools"}, "kind 'stools' is none of tables, chairs"),
        ({"kind": 1}, "kind 1 is none of"),
        ({"tables": ["dataset_rights"], "allowed": ["x"]}, "has no filter"),
        ({"tables": ["datasets"], "allowed": [" "]}, "at least one value"),
        ({"tables": ["datasets"], "allowed": "CC0 1.0"}, "at least one value"),
        ({"tables": ["datasets"], "allowed": ["CC0", "a\0b"]}, "characters that no text in the database has"),
        ({"tables": ["datasets"], "allowed": ["\ud800"]}, "characters that no text in the database has"),
        ({"tables": ["datasets"], "accept_shrink": "yes"}, "true or false"),
        ({"tables": ["datasets"], "sha256": "abc"}, "64 hex digits"),
        ({"sha256": SHA}, "sha256 names the file of one table"),
        ({"tables": {"datasets": {"licence": "x"}}}, "the options of table datasets"),
        ({"tables": {"datasets": ["x"]}}, "the options of table datasets"),
    ],
)
def test_what_no_run_could_do_is_refused(data: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequestError, match=re.escape(told)):
        plan(data)


@pytest.mark.parametrize("raw", [None, b"", b" ", b"null", b"{}", b"\xef\xbb\xbf{}"])
def test_nothing_in_all_its_forms_asks_for_nothing_in_particular(raw: bytes | None) -> None:
    assert decode(raw) == {}


@pytest.mark.parametrize(
    "raw", [b"{", b"[1]", b'"datasets"', b"\xff", b'{"tables": NaN}', b"[" * 60_000, b"\xac\xed\x00\x05"]
)
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequestError, match="JSON"):
        decode(raw)

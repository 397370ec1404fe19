"""The job key is that of the cron job which teams run beside this project."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from refresh_assets.published.table.declaration import Column, RowFilter, Table
from refresh_assets.published.table.job_key import (
    changed_parts,
    digest,
    parts_of,
    schema_fingerprint,
    transform_fingerprint,
)
from refresh_assets_tests.published_fixtures import BOOKS, SHELF

DATASETS = Table(
    "datasets",
    "datasets.csv",
    ("dataset_key",),
    (Column("dataset_key", "uuid", nullable=False), Column("license", "text", nullable=False)),
    RowFilter("license", setting="REFRESH_LICENSES"),
)
ZEROS = "0" * 64


@pytest.mark.parametrize(
    ("transform", "licenses", "expected"),
    [
        (1, ("CC BY 4.0", "CC0 1.0"), "082ccd3215d06eaecd9131a558b02736c6388432b4610adcb1c3b4f082267983"),
        (2, ("CC BY 4.0", "CC0 1.0"), "821a16f7c680636f96990a512675a39665445090434e284bd59c2fe3093ebb5e"),
        (1, ("CC0 1.0",), "5add2cd8b7f694fe11cf4df81148cffd1675d89ac02b9986e1e09a1aeb460eac"),
    ],
)
def test_the_job_key_is_the_one_that_the_cron_job_computes(
    transform: int, licenses: tuple[str, ...], expected: str
) -> None:
    table = replace(DATASETS, transform_version=transform)
    assert digest(parts_of(table, ZEROS, licenses)) == expected


def test_the_order_of_the_licences_does_not_matter() -> None:
    there = parts_of(DATASETS, ZEROS, ("CC0 1.0", "CC BY 4.0"))
    back = parts_of(DATASETS, ZEROS, ("CC BY 4.0", "CC0 1.0"))
    assert digest(there) == digest(back)


def test_names_that_are_not_ascii_are_escaped_before_hashing() -> None:
    assert digest({"a": "é"}) == hashlib.sha256(b'{"a":"\\u00e9"}').hexdigest()


def test_without_a_filter_the_configuration_is_the_file() -> None:
    assert parts_of(BOOKS, ZEROS, None)["config"] == {"file": "books.csv"}


def test_given_values_of_a_filter_decide_the_key() -> None:
    some, other = (parts_of(SHELF, ZEROS, values) for values in (("free",), ("free", "open")))
    assert changed_parts(some, other) == ("config",)


def test_changed_parts_are_named_in_alphabetical_order() -> None:
    before = parts_of(DATASETS, ZEROS, ("CC0 1.0",))
    after = parts_of(replace(DATASETS, transform_version=2), "1" * 64, ("CC BY 4.0",))
    assert changed_parts(before, after) == ("config", "input", "transform")


def test_an_expression_changes_the_fingerprint_of_the_transform_alone() -> None:
    columns = (*BOOKS.columns[:2], Column("note", "text", expression="upper(note)"))
    changed = replace(BOOKS, columns=columns)
    assert transform_fingerprint(changed) != transform_fingerprint(BOOKS)
    assert schema_fingerprint(changed) == schema_fingerprint(BOOKS)


def test_a_type_changes_the_fingerprint_of_the_schema_alone() -> None:
    changed = replace(BOOKS, columns=(*BOOKS.columns[:2], Column("note", "varchar(20)")))
    assert schema_fingerprint(changed) != schema_fingerprint(BOOKS)
    assert transform_fingerprint(changed) == transform_fingerprint(BOOKS)


def test_a_filter_by_a_setting_of_its_own_names_its_column_too() -> None:
    table = replace(DATASETS, filter=RowFilter("license", setting="REFRESH_KINDS"))
    assert parts_of(table, ZEROS, ("b", "a"))["config"] == {
        "file": "datasets.csv",
        "filter": {"column": "license", "values": ["a", "b"]},
    }

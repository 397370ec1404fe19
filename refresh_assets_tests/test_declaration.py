"""A declaration that contradicts itself is refused, naming the table and the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from refresh_assets.published.table.declaration import Column, DeclarationError, RowFilter
from refresh_assets_tests.published_fixtures import BOOKS

ID, TITLE, NOTE = BOOKS.columns


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"name": ""}, "'' is no name of 1 to 63 bytes"),
        ({"name": "é" * 32}, "is no name of 1 to 63 bytes"),
        ({"file": "a/b.csv"}, "file 'a/b.csv' must be the name of one published file"),
        ({"file": ".."}, "file '..' must be"),
        ({"key": ()}, "key names no column"),
        ({"key": ("isbn",)}, "key column 'isbn' is not declared"),
        ({"key": ("note",)}, "key column 'note' must be declared with nullable: false"),
        ({"key": ("id", "id")}, "key names a column twice"),
        ({"columns": (ID, TITLE, TITLE)}, "column 'title' is declared 2 times"),
        ({"columns": (ID, Column("t", "text); DROP TABLE x; --"))}, "is not a Postgres type"),
        ({"columns": (ID, Column("t", "text", expression=" "))}, "'t' has an empty expression"),
        ({"columns": (ID, Column("t", "text", published=False))}, "'t' is not published, so it needs an expression"),
        ({"columns": (ID, Column("t", "text", published_type="int"))}, "published_type goes with an expression"),
        ({"filter": RowFilter("kind", ("a",))}, "filter column 'kind' is not a published column"),
        ({"filter": RowFilter("note")}, "filter needs either values or the setting"),
        ({"filter": RowFilter("note", ("a",), "REFRESH_NOTES")}, "filter needs either values or the setting"),
        ({"shrink_limit": 1.5}, "shrink_limit is a share from 0 to 1"),
        ({"transform_version": 0}, "whole numbers from 1"),
    ],
)
def test_a_contradiction_is_named(change: dict[str, Any], match: str) -> None:
    with pytest.raises(DeclarationError, match=f"table .*{match}"):
        replace(BOOKS, **change)


def test_all_contradictions_are_named_at_once() -> None:
    with pytest.raises(DeclarationError, match=r"key names no column; .*shrink_limit"):
        replace(BOOKS, key=(), shrink_limit=2)


@pytest.mark.parametrize(
    "type_name", ["numeric(10, 2)", "timestamp with time zone", "text[]", "public.geometry(Point,4326)"]
)
def test_types_with_arguments_arrays_and_schemas_are_types(type_name: str) -> None:
    assert replace(BOOKS, columns=(ID, TITLE, Column("x", type_name))).columns[-1].type == type_name

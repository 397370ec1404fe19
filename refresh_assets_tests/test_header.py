"""How the names in a file's header find the declared columns."""

from __future__ import annotations

import pytest

from refresh_assets.published.csv_file.dialect import FileFormatError
from refresh_assets.published.csv_file.header import match_header

WANTED = ("key", "title", "license")


def error_of(found: list[str], wanted: tuple[str, ...] = WANTED) -> str:
    with pytest.raises(FileFormatError) as caught:
        match_header(found, wanted, "things.csv")
    return str(caught.value)


def test_columns_come_in_the_order_of_the_file() -> None:
    assert match_header(["license", "key", "title"], WANTED, "x") == ("license", "key", "title")


def test_surrounding_blanks_and_letter_case_do_not_matter() -> None:
    assert match_header(["Key", " TITLE", "License\t"], WANTED, "x") == WANTED


def test_declared_names_that_differ_in_case_alone_are_matched_exactly() -> None:
    assert match_header(["a", "A", "B"], ("A", "a", "b"), "x") == ("a", "A", "b")
    assert "missing column: a; unknown column: ' a'" in error_of([" a", "A"], ("A", "a"))


def test_of_two_found_names_that_differ_in_case_alone_the_exact_one_is_meant() -> None:
    assert "header: unknown column: 'Title'; found" in error_of(["key", "Title", "title", "license"])


def test_two_found_names_of_which_none_is_exact_are_both_unknown() -> None:
    text = error_of(["key", "Title", "TITLE", "license"])
    assert "missing column: title; unknown columns: 'Title', 'TITLE'" in text


def test_a_missing_column_is_named_and_what_was_found_is_quoted() -> None:
    assert error_of(["key", "title"]) == "things.csv: header: missing column: license; found 'key', 'title'"


def test_all_problems_are_named_at_once() -> None:
    text = error_of(["key", "licence", "", "key"])
    assert text == (
        "things.csv: header: missing columns: title, license; unknown columns: 'licence', ''; "
        "repeated column: 'key' at position 1, 'key' at position 4; found 'key', 'licence', '', 'key'"
    )


def test_a_byte_order_mark_in_a_name_is_made_visible() -> None:
    assert r"unknown column: '\ufeffkey'" in error_of(["\ufeffkey", "title", "license"])


def test_a_row_in_the_headers_place_is_suspected() -> None:
    text = error_of(["7a8d6ab5-332d-5caf-9a80-6bfc488f926a", "Mosses", "CC0 1.0"])
    assert "the first line looks like a row of data: is the header missing?" in text


def test_another_separator_is_suspected() -> None:
    assert "separated by something else than commas?" in error_of(["key;title;license"])


def test_a_very_wide_header_does_not_make_a_very_long_error() -> None:
    assert len(error_of(["x" * 500] * 5000)) < 8000

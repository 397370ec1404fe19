"""The manifest is read strictly, and every error says which field."""

from __future__ import annotations

import hashlib
import json

import pytest

from refresh_assets.published.publisher.manifest import ManifestEntry, ManifestError, parse_manifest

SHA = "0f" * 32


def manifest(**fields: object) -> bytes:
    return json.dumps({"files": {"datasets.csv": {"sha256": SHA, "rows": 3, **fields}}}).encode()


def error_of(body: bytes, name: str = "datasets.csv") -> str:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(body).entry(name)
    assert "manifest.json" in str(caught.value)
    return str(caught.value)


def test_an_entry_is_read() -> None:
    assert parse_manifest(manifest()).entry("datasets.csv") == ManifestEntry("datasets.csv", SHA, 3)


def test_the_manifest_carries_the_digest_of_its_own_bytes() -> None:
    assert parse_manifest(manifest()).sha256 == hashlib.sha256(manifest()).hexdigest()


def test_upper_case_digits_are_stored_lower() -> None:
    assert parse_manifest(manifest(sha256=SHA.upper())).entry("datasets.csv").sha256 == SHA


def test_unknown_keys_and_other_entries_are_ignored() -> None:
    body = json.dumps({"version": 2, "files": {"x": None, "datasets.csv": {"sha256": SHA, "rows": 0, "note": "é"}}})
    assert parse_manifest(body.encode()).entry("datasets.csv").rows == 0


def test_all_names_are_listed_in_order() -> None:
    assert parse_manifest(b'{"files": {"b": 1, "../../etc/passwd": 2, "a": 3}}').names == ("b", "../../etc/passwd", "a")


def test_one_leading_bom_is_dropped() -> None:
    assert parse_manifest(b"\xef\xbb\xbf" + manifest()).entry("datasets.csv").rows == 3


def test_a_second_bom_is_an_error() -> None:
    assert "is not JSON" in error_of(b"\xef\xbb\xbf" * 2 + manifest())


def test_blanks_around_the_json_do_not_matter() -> None:
    assert parse_manifest(b"\r\n " + manifest() + b"\n\n").entry("datasets.csv").rows == 3


@pytest.mark.parametrize("rows", [-1, True, False, None, 3.0, 1e300, "3", [], {}, 2**63])
def test_rows_that_are_no_count_are_an_error(rows: object) -> None:
    text = error_of(manifest(rows=rows))
    assert 'files["datasets.csv"].rows is ' in text
    assert "it must be a count of rows, a whole number from 0 to 9223372036854775807" in text


def test_a_number_of_any_length_is_told_by_its_field_and_ignored_elsewhere() -> None:
    body = manifest(rows=3).replace(b": 3", b": " + b"9" * 5000)
    assert error_of(body).startswith('manifest.json: files["datasets.csv"].rows is ')
    longest = b'{"x": ' + b"9" * 5000 + b", " + manifest()[1:]
    assert parse_manifest(longest).entry("datasets.csv").rows == 3


def test_the_wrong_count_is_shown() -> None:
    assert error_of(manifest(rows=-1)).startswith('manifest.json: files["datasets.csv"].rows is -1; ')


def test_the_largest_count_is_taken() -> None:
    assert parse_manifest(manifest(rows=2**63 - 1)).entry("datasets.csv").rows == 2**63 - 1


@pytest.mark.parametrize(
    "sha256",
    [
        SHA[:63],
        SHA + "0",
        f" {SHA}",
        f"{SHA}\n",
        "g" * 64,
        "",
        None,
        7,
        [SHA],
        f"sha256:{SHA}",
        "\u0660" * 64,
    ],
)
def test_what_is_not_64_hex_digits_is_an_error(sha256: object) -> None:
    text = error_of(manifest(sha256=sha256))
    assert 'files["datasets.csv"].sha256 is ' in text
    assert "64 hex digits" in text


def test_a_digest_of_63_digits_is_counted() -> None:
    assert "63 characters" in error_of(manifest(sha256=SHA[:63]))


@pytest.mark.parametrize("field", ["sha256", "rows"])
def test_a_missing_field_is_named(field: str) -> None:
    entry = {"sha256": SHA, "rows": 3}
    del entry[field]
    assert f".{field} is missing" in error_of(json.dumps({"files": {"datasets.csv": entry}}).encode())


def test_both_faults_of_an_entry_are_told_at_once() -> None:
    text = error_of(manifest(sha256="x", rows=-1))
    assert "].sha256 is " in text
    assert "].rows is -1" in text


def test_an_absent_name_is_told_with_what_is_listed() -> None:
    text = error_of(b'{"files": {"Datasets.CSV": {}, "other.csv": {}}}')
    assert 'files["datasets.csv"] is missing; listed are "Datasets.CSV", "other.csv"' in text


def test_a_long_list_of_names_is_cut() -> None:
    names: dict[str, dict[str, object]] = {f"file-{i}.csv": {} for i in range(1000)}
    text = error_of(json.dumps({"files": names}).encode())
    assert text.endswith("and 980 more")


def test_an_empty_list_of_files_is_told() -> None:
    assert "no file is listed" in error_of(b'{"files": {}}')


def test_an_odd_name_can_be_printed() -> None:
    error_of(b'{"files": {"\\ud800\\n": {}}}').encode("utf-8")


@pytest.mark.parametrize(
    "body",
    [
        b'{"files": {"datasets.csv": {}, "datasets.csv": {}}}',
        b'{"files": {}, "files": {}}',
        b'{"files": {"datasets.csv": {"rows": 1, "rows": 1}}}',
        b'{"files": {}, "note": [{"a": {"b": 1, "b": 1}}]}',
        b'{"files": {"a": 1, "\\u0061": 1}}',
    ],
)
def test_a_key_that_stands_twice_is_an_error_at_any_depth(body: bytes) -> None:
    assert "stands twice" in error_of(body)


@pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"-Infinity"])
def test_constants_that_json_does_not_have_are_an_error(constant: bytes) -> None:
    assert constant.decode() in error_of(b'{"files": {}, "x": ' + constant + b"}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"<!DOCTYPE html><html></html>", "HTML page"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        ('{"files": {}}'.encode("utf-16"), "UTF-16"),
        ('{"files": {}}'.encode("utf-16-le"), "UTF-16"),
        ('{"files": {}}'.encode("utf-32-be"), "UTF-16"),
        (b'{"files": "\xe9"}', "is not UTF-8"),
        (manifest()[:-9], "not complete JSON"),
        (b'{"files": {"datas', "not complete JSON"),
        (b'{"files": {}', "not complete JSON"),
        (b"{'files': {}}", "line 1, column 2"),
        (manifest() + b"x", "is not JSON"),
        (b'{"files": {},}', "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "is a list"),
        (b"null", "is null"),
        (b'"files"', 'is "files"'),
        (b"{}", "files is missing"),
        (b'{"files": [{"name": "datasets.csv"}]}', "files is a list"),
        (b'{"files": null}', "files is null"),
        (b'{"files": {"datasets.csv": "x"}}', 'files["datasets.csv"] is "x"'),
        (b'{"files": {"datasets.csv": []}}', 'files["datasets.csv"] is a list'),
    ],
)
def test_what_is_not_a_manifest_is_told_by_what_it_is(body: bytes, words: str) -> None:
    assert words in error_of(body)


def test_a_long_value_is_cut_in_the_error() -> None:
    assert len(error_of(manifest(rows="9" * 10_000))) < 300

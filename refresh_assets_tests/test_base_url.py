"""The publisher's address: taken apart strictly, never shown with its login."""

from __future__ import annotations

from pathlib import Path

import pytest

from refresh_assets.base_url import BaseUrl


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://data.example", "https://data.example"),
        ("https://data.example/", "https://data.example"),
        ("https://data.example/pub/weekly", "https://data.example/pub/weekly"),
        ("https://data.example/pub/weekly//", "https://data.example/pub/weekly"),
        ("HTTPS://Data.Example:8443/Pub", "https://data.example:8443/Pub"),
        ("http://[::1]:8080/a%20b", "http://[::1]:8080/a%20b"),
        ("http://me:secret@data.example/pub", "http://data.example/pub"),
        ("file:///srv/pub/", "file:///srv/pub"),
        ("file:/srv/pub", "file:///srv/pub"),
        ("file://localhost/srv/pub", "file:///srv/pub"),
        ("file:///", "file://"),
    ],
)
def test_an_address_is_kept_without_login_and_last_slash(text: str, url: str) -> None:
    assert BaseUrl.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data.example",
        "ftp://data.example",
        "s3://bucket",
        "http://",
        "http:///pub",
        "https://:secret@/pub",
        "http://data.example:port",
        "http://data.example:99999",
        "http://[::1",
        "https://data.example/?token=secret",
        "https://data.example/#secret",
        "file://server/share",
        "file:relative",
        "file:",
        "file:///a%00b",
        "/srv/pub",
    ],
)
def test_what_is_no_base_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        BaseUrl.parse(text)
    assert "secret" not in str(caught.value)
    assert "share" not in str(caught.value)


def test_a_login_is_decoded_and_not_shown() -> None:
    base = BaseUrl.parse("https://me%40home:s%3Acr%2Fet@data.example")
    assert (base.username, base.password) == ("me@home", "s:cr/et")
    assert "cr" not in repr(base)
    assert "home" not in repr(base)


def test_a_file_stands_below_learn_data() -> None:
    base = BaseUrl.parse("https://data.example/pub")
    assert base.address("datasets.csv") == "https://data.example/pub/learn/data/datasets.csv"
    assert not base.is_file


def test_a_name_is_encoded_in_an_address() -> None:
    assert BaseUrl.parse("https://h").address("a b%20#?.csv") == "https://h/learn/data/a%20b%2520%23%3F.csv"


def test_a_file_url_is_decoded_once() -> None:
    base = BaseUrl.parse("file:///srv/a%20b%2520c/")
    assert base.is_file
    assert base.path("datasets.csv") == Path("/srv/a b%20c/learn/data/datasets.csv")


def test_a_name_is_no_part_of_the_url() -> None:
    assert BaseUrl.parse("file:///").path("a b%20#?.csv") == Path("/learn/data/a b%20#?.csv")

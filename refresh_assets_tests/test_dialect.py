"""What the strict check of a published file accepts, and how it names what it refuses."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from refresh_assets.published.csv_file import dialect
from refresh_assets.published.csv_file.dialect import FileFormatError, Layout, scan

Scan = Callable[[bytes], Layout]
MEGABYTE = 1024 * 1024


@pytest.fixture
def check(tmp_path: Path) -> Scan:
    def write_and_scan(data: bytes) -> Layout:
        path = tmp_path / "published.csv"
        path.write_bytes(data)
        return scan(path, "things.csv")

    return write_and_scan


def error_of(check: Scan, data: bytes) -> str:
    with pytest.raises(FileFormatError) as caught:
        check(data)
    return str(caught.value)


def test_the_layout_tells_where_the_rows_are_and_which_bytes_were_checked(check: Scan) -> None:
    data = b'key,"a ""b""\nc"\n1,x\n2,"y\nz"\n'
    assert check(data) == Layout(
        header=("key", 'a "b"\nc'),
        data_offset=16,
        line_end="\n",
        header_lines=2,
        rows=2,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_kind_of_line_end_is_accepted_and_told(check: Scan, end: str) -> None:
    layout = check(end.join(["a,b", "1,2", "3,4", ""]).encode())
    assert (layout.line_end, layout.rows, layout.data_offset) == (end, 2, 3 + len(end))


def test_a_missing_last_newline_is_fine(check: Scan) -> None:
    assert check(b"a,b\n1,2\n3,4").rows == 2


def test_a_header_without_rows_is_fine(check: Scan) -> None:
    assert (check(b"a,b").rows, check(b"a,b\r\n").rows) == (0, 0)


def test_newlines_of_any_kind_inside_quotes_are_data(check: Scan) -> None:
    assert check(b'a,b\r\n1,"x\ny\rz\r\n\r\n\\.\r\n"\r\n').rows == 1


def test_doubled_quotes_and_backslashes_are_data(check: Scan) -> None:
    assert check(b'a,b\n"""",""\n\\,\\N\n"\\","x\\""y"\n\\.,\\.\n"\\.",1\n').rows == 5


def test_one_byte_order_mark_is_dropped(check: Scan) -> None:
    layout = check(b"\xef\xbb\xbfa,b\n1,2\n")
    assert (layout.header, layout.data_offset) == (("a", "b"), 7)


def test_a_second_byte_order_mark_belongs_to_the_first_name(check: Scan) -> None:
    assert check(b"\xef\xbb\xbf" * 2 + b"a,b\n").header == ("\ufeffa", "b")


def test_characters_of_several_bytes_are_accepted_wherever_a_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_bytes("a,b\n é東🐟,\u00a0\n".encode() * 2)
    assert {scan(path, "x", block_size=size).rows for size in range(1, 30)} == {3}


def test_a_byte_that_is_not_utf8_is_named_with_its_line(check: Scan) -> None:
    text = error_of(check, b"a,b\n1,\xc3\xb6\n2,K\xf6ln\n")
    assert text == r"things.csv: line 3: not UTF-8 at '2,K\xf6ln'; publish the file as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_unicode_encodings_are_called_by_their_name(check: Scan, encoding: str) -> None:
    assert f"the file is {encoding[:6].upper()}, not UTF-8" in error_of(check, "key,title\n1,x\n".encode(encoding))


def test_gzip_is_recognised(check: Scan) -> None:
    assert "looks like gzip" in error_of(check, gzip.compress(b"a,b\n1,2\n"))


def test_a_web_page_is_recognised(check: Scan) -> None:
    assert "looks like an HTML" in error_of(check, b"\n <!DOCTYPE html>\n<title>Not found</title>")


def test_a_nul_byte_is_refused(check: Scan) -> None:
    assert r"""line 3: a NUL byte in 'y\x00"'""" in error_of(check, b'a,b\n1,"x\ny\0"\n')


def test_a_quote_inside_an_unquoted_field_is_refused_where_it_stands(check: Scan) -> None:
    text = error_of(check, b'a,b\n1,"x, y"\n2,12" pipe\n3,"z"\n')
    assert """line 3: a quote inside an unquoted field at '2,12" pipe'""" in text


def test_a_blank_before_a_quote_is_refused(check: Scan) -> None:
    assert "line 2: a quote inside an unquoted field" in error_of(check, b'a,b\n1, "x"\n')
    for separator, asked in ((b";", True), (b"\t", True), (b" ", False)):
        text = error_of(check, b'a%sb\n1%s"x"\n' % (separator, separator))
        assert ("separated by something else than commas?" in text) == asked
        text = error_of(check, b'"a"%s"b"\n"1"%s"x"\n' % (separator, separator))
        assert ("separated by something else than commas?" in text) == asked


def test_text_behind_a_closing_quote_is_refused_and_tells_where_the_field_began(check: Scan) -> None:
    text = error_of(check, b'a,b\n1,"12 pipe\n2,x\n3,"night moths"\n')
    assert "line 4: text behind the closing quote of a field that was opened on line 2 at" in text


def test_a_quote_that_is_never_closed_is_told_by_the_line_that_opens_it(check: Scan) -> None:
    text = error_of(check, b'a,b\n1,x\n2,"12 pipe\n' + b"3,x\n" * 1000)
    assert """line 3: the quote at '2,"12 pipe' opens a field and is never closed""" in text


def test_a_doubled_quote_does_not_hide_where_a_field_was_opened(check: Scan) -> None:
    assert "line 2: the quote" in error_of(check, b'a,b\n1,"x\ny""z\n')


@pytest.mark.parametrize(("end", "line"), [("\n", 3), ("\r\n", 3), ("\r", 3)])
def test_a_blank_line_is_refused(check: Scan, end: str, line: int) -> None:
    assert f"line {line}: a blank line" in error_of(check, end.join(["a,b", "1,2", "", "3,4"]).encode())


def test_a_blank_line_at_the_end_is_refused(check: Scan) -> None:
    assert "line 3: a blank line" in error_of(check, b"a,b\n1,2\n\n")


@pytest.mark.parametrize("last", [b"\n3,4\n", b"\n", b""])
def test_an_unquoted_end_marker_is_refused(check: Scan, last: bytes) -> None:
    assert r"line 3: an unquoted line of only '\.'" in error_of(check, b"a,b\n1,2\n\\." + last)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"a,b\n1,2\r\n3,4\n", "line 2: a line end of another kind (CRLF) than the first one (LF) at '1,2'"),
        (b"a,b\n1,2\n3,\r4\n", "line 3: a line end of another kind (CR) than the first one (LF) at '3,'"),
        (b"a,b\r\n1,2\r\n3,4\n", "line 3: a line end of another kind (LF) than the first one (CRLF) at '3,4'"),
        (b"a,b\r\n1,2\r3,4\r\n", "line 2: a line end of another kind (CR) than the first one (CRLF) at '1,2'"),
        (b"a,b\r\n1,2\r", "line 2: a line end of another kind (CR) than the first one (CRLF) at '1,2'"),
        (b"a,b\r1,2\n3,4\r", "line 2: a line end of another kind (LF) than the first one (CR) at '1,2'"),
        (b"a,b\r1,2\r3,4\r\n", "line 3: a line end of another kind (CRLF) than the first one (CR) at '3,4'"),
    ],
)
def test_mixed_line_ends_are_refused(check: Scan, data: bytes, found: str) -> None:
    assert found in error_of(check, data)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\na,b\n", b'a,"b', b'a,b"\n', b"a,\0\n"])
def test_what_is_wrong_in_the_first_line_is_said_of_the_header(check: Scan, data: bytes) -> None:
    text = error_of(check, data)
    assert "line 1" in text
    assert "header" in text


@pytest.mark.parametrize("text", ["x\n", "é", "東", " 東", "🐟"])
def test_a_header_without_end_is_not_read_for_ever(check: Scan, text: str) -> None:
    assert "the header is longer than" in error_of(check, b'a,"' + text.encode() * dialect.HEADER_LIMIT)


def test_what_was_found_is_shown_on_one_line_and_bounded(check: Scan) -> None:
    text = error_of(check, b"a,b\n" + b"\x1b[31m" * 100 + b'"' + b"y" * 1000 + b"\n")
    assert text.isprintable()
    assert len(text) < 250


def test_the_first_of_several_faults_is_told_whatever_the_block_size(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_bytes(b'a,b\n1,2\n3,"x"y\n\n5,\0\n\xff,\\.\n\\.\n')
    for size in range(1, 40):
        with pytest.raises(FileFormatError, match="line 3: text behind the closing quote"):
            scan(path, "x", block_size=size)


@pytest.mark.parametrize("closing", [b'"\n', b""])
def test_a_huge_quoted_field_takes_no_more_memory(tmp_path: Path, closing: bytes) -> None:
    path = tmp_path / "published.csv"
    with path.open("wb") as file:
        file.write(b'a,b\n1,"')
        for _ in range(40):
            file.write((b"x,y\n" * 500 + b'""') * (MEGABYTE // 2002))
        file.write(closing)
    tracemalloc.start()
    try:
        if closing:
            assert scan(path, "x").rows == 1
        else:
            with pytest.raises(FileFormatError, match="line 2: the quote"):
                scan(path, "x")
        assert tracemalloc.get_traced_memory()[1] < 12 * MEGABYTE
    finally:
        tracemalloc.stop()

"""One line of a tracking log: what is read of it, and what is no event."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from refresh_assets.windows.tracking_event import BrokenLineError, read_event
from refresh_assets_tests.event_logs import NORTH, event, moment

AT = datetime(2026, 3, 2, 4, 15, 7, 120_000, tzinfo=timezone.utc)


def reason(line: bytes) -> str:
    with pytest.raises(BrokenLineError) as caught:
        read_event(line)
    return str(caught.value)


def test_time_course_kind_and_learner_are_read() -> None:
    assert read_event(event(moment(1))) == (moment(1), NORTH, "play_video", "7")


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02T04:15:07.120000+00:00",
        "2026-03-02T04:15:07.120000",
        "2026-03-02T04:15:07.12Z",
        "2026-03-02t04:15:07.12z",
        "2026-03-02 04:15:07.12",
        "2026-03-02T04:15:07,120+00:00",
        "2026-03-02T04:15:07,120000+00:00",
        "2026-03-02T04:15:07.120000999Z",
        "2026-03-02T05:45:07.120000+01:30",
        "2026-03-02T05:45:07.12+0130",
        "2026-03-01T23:15:07.12-05",
    ],
)
def test_a_time_is_read_in_all_its_ways_and_is_utc_without_an_offset(text: str) -> None:
    assert read_event(event(text))[0] == AT


def test_a_time_in_whole_seconds_is_one() -> None:
    assert read_event(event("2026-03-02T04:15:07+00:00"))[0] == AT.replace(microsecond=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-03-02",
        "2026-02-30T00:00:00Z",
        "2026-03-02T24:00:01Z",
        "2026-03-02T04:15:60Z",
        "2026-03-02T04:15Z",
        "20260302T041507Z",
        "2026-W10-1T04:15:07Z",
        "2026-W10-1T04:15:07.120000+00:00",
        "2026-03-02x04:15:07.120000+00:00",
        "2026-03-02T24:00:00.000000+00:00",
        "2026-03-02T04:15:07.120000+99:99",
        "2026-03-02T04:15:07Z ",
        "٢٠٢٦-03-02T04:15:07Z",
        "0001-01-01T00:00:00+14:00",
        "1772424907",
    ],
)
def test_what_is_no_time_breaks_the_line(text: str) -> None:
    assert reason(event(text)) == "its time cannot be read"


@pytest.mark.parametrize("time", [None, 1772424907, True, {}])
def test_a_time_that_is_no_text_breaks_the_line(time: Any) -> None:
    assert reason(json.dumps({"time": time, "event_type": "x"}).encode()) == "it has no time"


@pytest.mark.parametrize("course", [None, "", "  "])
def test_an_event_of_no_course_is_of_the_site(course: Any) -> None:
    assert read_event(event(AT, course=course))[1] == "site"


@pytest.mark.parametrize("course", [7, ["x"], "a\0b", "\ud800", "a\tb", "a\nb", "x" * 256])
def test_a_course_that_cannot_be_stored_or_read_breaks_the_line(course: Any) -> None:
    assert "course" in reason(event(AT, course=course))


@pytest.mark.parametrize(("user", "learner"), [(7, "7"), ("7", "7"), ("007", "7"), (" ada ", "ada"), ("Zoë", "Zoë")])
def test_a_learner_is_a_number_or_a_text(user: Any, learner: str) -> None:
    assert read_event(event(AT, user=user))[3] == learner


@pytest.mark.parametrize("user", [None, "", 0, -1, "0", "-1", " 00 ", "+0"])
def test_an_event_of_nobody_is_an_event(user: Any) -> None:
    assert read_event(event(AT, user=user))[3] is None


@pytest.mark.parametrize("user", [True, 7.5, [7], {}, "a\0b", "x" * 256, 1 << 70])
def test_a_user_that_is_neither_breaks_the_line(user: Any) -> None:
    assert "user" in reason(event(AT, user=user))


def test_an_event_without_context_is_one_of_nobody_on_the_site() -> None:
    line = json.dumps({"time": AT.isoformat(), "event_type": "x"}).encode()
    assert read_event(line) == (AT, "site", "x", None)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("edx.course.enrollment.activated", "edx.course.enrollment.activated"),
        ("/courses/course-v1:Org+North+1/jump_to/block", "page"),
        ("/u/ada.lovelace", "page"),
        ("ada@example.org was here", "other"),
        ("x" * 101, "other"),
        ("é", "other"),
        ("a\0b", "other"),
    ],
)
def test_a_kind_never_tells_who_somebody_is(kind: str, shown: str) -> None:
    assert read_event(event(AT, kind=kind))[2] == shown


def test_a_name_stands_in_for_a_missing_event_type() -> None:
    assert read_event(event(AT, kind="", name="seq_next"))[2] == "seq_next"
    assert reason(event(AT, kind=None)) == "it says no event type"
    assert reason(event(AT, kind=["x"])) == "it says no event type"


@pytest.mark.parametrize("line", [b"[]", b"null", b"7", b'"text"', b"true"])
def test_json_that_is_no_object_is_no_event(line: bytes) -> None:
    assert reason(line) == "it is JSON but no object"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"{}{}",
        b"plain text",
        b"\0\0\0\0",
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        event(AT)[:-9],
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": ' + b"9" * 10_000 + b"}",
        event(AT).decode().encode("utf-16"),
    ],
    ids=range(12),
)
def test_what_is_no_json_in_utf_8_is_no_event(line: bytes) -> None:
    assert reason(line) == "it is no JSON in UTF-8"


def test_an_empty_object_is_no_event() -> None:
    assert reason(b"{}") == "it has no time"
    assert reason(b'{"context": [], "time": "x"}') == "its context is no object"


def test_of_a_key_that_stands_there_twice_the_last_one_counts() -> None:
    line = event(AT)[:-1] + b', "event_type": "pause_video"}'
    assert read_event(line)[2] == "pause_video"


def test_a_reason_shows_nothing_of_the_line() -> None:
    for line in (event("s3cret"), event(AT, course=["s3cret"]), event(AT, user=["s3cret"]), b"s3cret"):
        assert "s3cret" not in reason(line)


def test_an_offset_of_less_than_an_hour_is_kept() -> None:
    assert read_event(event("2026-03-02T04:15:07+00:30"))[0] == AT.replace(microsecond=0) - timedelta(minutes=30)

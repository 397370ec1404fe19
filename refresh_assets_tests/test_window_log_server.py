"""Tracking logs of a web server."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from refresh_assets.errors import RefreshError
from refresh_assets_tests.event_logs import PLAY, Counting, events, log_of, logs_at, window
from refresh_assets_tests.publisher import PREFIX, Answer, PublishingServer, publishing


@pytest.fixture
def server() -> Iterator[PublishingServer]:
    with publishing() as server:
        for number in range(1, 4):
            name = f"{PREFIX}tracking.log-{number} a.gz"
            server.files[name] = gzip.compress(log_of(*events(number, hours=number)))
        server.files[PREFIX] = (
            b'<a href="../">up</a> <a href="tracking.log-1%20a.gz">1</a> <A HREF="./tracking.log-2%20a.gz">2</A> '
            b'<a href="/learn/data/tracking.log-3%20a.gz">3</a> <a href="http://other/tracking.log">x</a> '
            b'<a href="other.log">4</a> <a href="tracking.log%2F..%2Fx">6</a> '
            b'<a href="sub/tracking.log">5</a> <a href="?C=N;O=D">Name</a>'
        )
        server.files = {name.replace(" ", "%20"): body for name, body in server.files.items()}
        yield server


def test_files_that_a_server_lists_are_read(server: PublishingServer, tmp_path: Path, counting: Counting) -> None:
    logs = logs_at(server.base + PREFIX, tmp_path)
    assert counting.cells(logs, [window()])[PLAY][:2] == (6, 3)
    assert [path.suffix for path in (tmp_path / "home" / "windows").iterdir()] == [".json"]


def test_one_file_of_a_server_is_read(server: PublishingServer, tmp_path: Path, counting: Counting) -> None:
    logs = logs_at(f"{server.base}{PREFIX}tracking.log-3%20a.gz", tmp_path)
    assert counting.cells(logs, [window()])[PLAY][:2] == (3, 3)


def test_files_of_a_server_with_the_same_strong_tag_are_not_fetched_again(
    server: PublishingServer, tmp_path: Path
) -> None:
    logs = logs_at(server.base + PREFIX, tmp_path)
    before = logs.look([window()])
    assert logs.look([window()]) == before
    name = f"{PREFIX}tracking.log-1%20a.gz"
    assert server.asked(name) == 1
    server.files[name] = gzip.compress(log_of(*events(2, hours=9)))
    assert logs.look([window()]) != before
    assert server.asked(name) == 2


def test_a_server_without_strong_tags_is_counted_whole_and_not_looked_at_for_late_events(
    server: PublishingServer, tmp_path: Path, counting: Counting
) -> None:
    server.tags = False
    logs = logs_at(server.base + PREFIX, tmp_path)
    for times in (1, 2):
        assert counting.cells(logs, [window()])[PLAY][:2] == (6, 3)
        assert server.asked(f"{PREFIX}tracking.log-1%20a.gz") == times
    assert logs.look([window()]) == {}
    assert server.asked(f"{PREFIX}tracking.log-1%20a.gz") == 2


def test_a_body_that_is_cut_short_is_fetched_again(
    server: PublishingServer, tmp_path: Path, counting: Counting
) -> None:
    name = f"{PREFIX}tracking.log-1%20a.gz"
    server.script(name, Answer(cut_at=20), Answer(status=503), Answer())
    assert counting.cells(logs_at(server.base + PREFIX, tmp_path), [window()])[PLAY][:2] == (6, 3)
    assert server.asked(name) == 3


def test_a_file_that_went_after_it_was_listed_is_looked_for_under_its_new_name(
    server: PublishingServer, tmp_path: Path, counting: Counting
) -> None:
    server.script(f"{PREFIX}tracking.log-2%20a.gz", Answer(status=404), Answer())
    assert counting.cells(logs_at(server.base + PREFIX, tmp_path), [window()])[PLAY][:2] == (6, 3)


def test_a_file_that_is_listed_and_never_there_is_told(
    server: PublishingServer, tmp_path: Path, counting: Counting
) -> None:
    server.script(f"{PREFIX}tracking.log-2%20a.gz", Answer(status=404))
    with pytest.raises(RefreshError, match=r"went each of the 3 times .*log-2%20a.gz: the server answered 404"):
        counting.cells(logs_at(server.base + PREFIX, tmp_path), [window()])


@pytest.mark.parametrize(
    ("status", "words"), [(404, "not published there; WINDOW_LOGS says"), (401, "WINDOW_LOGS may")]
)
def test_what_a_server_refuses_is_told_by_the_setting(
    server: PublishingServer, tmp_path: Path, status: int, words: str
) -> None:
    server.script(f"{PREFIX}tracking.log-1%20a.gz", Answer(status=status))
    with pytest.raises(RefreshError, match=words):
        logs_at(server.base + PREFIX, tmp_path).look([window()])


def test_a_server_that_lists_no_log_is_told(server: PublishingServer, tmp_path: Path) -> None:
    server.files[PREFIX] = b"<html>welcome</html>"
    with pytest.raises(RefreshError, match="lists no file named"):
        logs_at(server.base + PREFIX, tmp_path).look([window()])


def test_a_login_in_the_address_is_used_and_not_shown(server: PublishingServer, tmp_path: Path) -> None:
    logs = logs_at(server.base.replace("://", "://ada:s3cr3t-w0rd@") + PREFIX, tmp_path)
    assert logs.look([window()])
    assert all(r.headers["authorization"].startswith("Basic ") for r in server.requests if "HEAD" not in r.path)
    assert "s3cr3t" not in logs.name + repr(logs)

"""The parts of `up` that need no server: logs, progress, stopping, ending processes, who holds the lock."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from refresh_assets.local.children import RESTARTS, Child, ChildDiedError
from refresh_assets.local.house import House
from refresh_assets.local.logs import KEPT, BoundedLog
from refresh_assets.local.only_one import Holder, holder_of, only_one, tell
from refresh_assets.local.processes import MARK, end, is_alive, mark_of, marked
from refresh_assets.local.progress import progress
from refresh_assets.ports import first_free, is_free
from refresh_assets.stopping import Stopping
from refresh_assets_tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

# A program started by one that ignores SIGTERM would ignore it as well.
PAUSE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL); print('ready', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause(); signal.pause()"


def ready(code: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **env}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_log_and_its_earlier_ones_stay_within_their_bounds(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "child.log", max_bytes=100)
    log.copy(io.BytesIO(b"".join(b"line %03d\n" % number for number in range(200)))).join(10)
    files = sorted(tmp_path.iterdir())
    assert len(files) == KEPT
    assert all(file.stat().st_size <= 100 for file in files)
    assert log.tail().endswith("line 199")


def test_a_log_is_rotated_at_each_start(tmp_path: Path) -> None:
    for text in (b"first\n", b"second\n"):
        log = BoundedLog(tmp_path / "child.log")
        log.copy(io.BytesIO(text)).join(10)
    assert log.tail() == "second"
    assert (tmp_path / "child.log.1").read_bytes() == b"first\n"


def test_colours_are_left_out_of_a_log(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "child.log")
    log.copy(io.BytesIO(b"\x1b[32m2026\x1b[0m - \x1b[34mINFO\x1b[0m\n")).join(10)
    assert log.tail() == "2026 - INFO"


def test_progress_says_what_goes_on_until_it_is_over() -> None:
    lines: list[str] = []
    with progress(lines.append, "waiting", every=0.01):
        deadline = time.monotonic() + 10
        while len(lines) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
    assert lines[0] == "waiting …"
    assert lines[1].startswith("  … waiting: ")


def test_the_first_signal_stops_and_the_second_hastens() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stopping = Stopping()
    with stopping.by_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(10)
        assert not stopping.hastened
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.hastened
    assert signal.getsignal(signal.SIGTERM) == before


def test_marked_processes_are_found_and_those_of_another_home_are_not(tmp_path: Path) -> None:
    with ready(PAUSE, {MARK: mark_of(tmp_path)}) as ours, ready(PAUSE, {MARK: mark_of(tmp_path / "other")}) as other:
        assert [process.pid for process in marked(tmp_path)] == [ours.pid]
        assert end(lambda: marked(tmp_path), 10)
        assert ours.wait(10) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    with ready(DEAF, {MARK: mark_of(tmp_path)}) as deaf:
        assert end(lambda: marked(tmp_path), patience=0.2)
        assert deaf.wait(10) == -signal.SIGKILL


def test_a_dead_process_that_nobody_collected_counts_as_ended() -> None:
    with ready("print('ready')", {}) as process:
        found = psutil.Process(process.pid)
        wait_until(lambda: not is_alive(found), 10)


def test_a_child_that_dies_again_and_again_is_given_up_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refresh_assets.local.children.FIRST_WAIT", 0.001)
    command = [sys.executable, "-c", "print('no luck', flush=True); raise SystemExit(3)"]
    child = Child("worker", command, os.environ, BoundedLog(tmp_path / "worker.log"))
    child.start()
    told: list[str] = []

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            told.append(child.check() or "")
            time.sleep(0.005)

    with pytest.raises(ChildDiedError, match="giving up") as given_up:
        watch()
    assert "no luck" in str(given_up.value)
    assert sum(text.startswith("the worker ended by itself (exit code 3)") for text in told) == RESTARTS


def test_a_holder_whose_number_is_now_another_process_is_gone() -> None:
    assert Holder(os.getpid(), psutil.Process().create_time()).stays
    assert not Holder(os.getpid(), psutil.Process().create_time() - 60).stays


def test_a_holder_that_ends_or_lost_its_make_does_not_stay() -> None:
    started = psutil.Process().create_time()
    assert not Holder(os.getpid(), started, ending=True).stays
    assert not Holder(os.getpid(), started, parent=os.getpid()).stays


def test_who_holds_the_lock_is_written_down_and_removed_at_the_end(tmp_path: Path) -> None:
    house = House(tmp_path, {}, print, Stopping())
    with only_one(house):
        tell(tmp_path, ui="http://127.0.0.1:3000")
        holder = holder_of(tmp_path)
        assert holder is not None
        assert (holder.pid, holder.ui) == (os.getpid(), "http://127.0.0.1:3000")
    assert holder_of(tmp_path) is None


def test_a_port_that_someone_listens_on_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert not is_free(taken)
        assert first_free([taken]) is None

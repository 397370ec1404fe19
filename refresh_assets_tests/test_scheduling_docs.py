"""What docs/scheduling.md and the units in deploy/ say is what the code does."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from refresh_assets.daemon.guard import LOST
from refresh_assets.daemon.settings import read_drain
from refresh_assets.daemon.timing import Timing
from refresh_assets_tests import test_daemon
from refresh_assets_tests.documents import DOCS, ROOT, tables

TEXT = (DOCS / "scheduling.md").read_text(encoding="utf-8")
UNITS = sorted((ROOT / "deploy").glob("*.service"))


class UnitParser(configparser.ConfigParser):
    """Tells the names of options as they are written."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(path: Path) -> configparser.ConfigParser:
    parser = UnitParser(interpolation=None, strict=True)
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def test_every_promise_names_a_test_that_exists_and_its_bound() -> None:
    bounds = {f"{seconds:g} s" for seconds in (test_daemon.KILLED, test_daemon.FROZEN, test_daemon.HANDED_OVER)}
    for row in tables(TEXT)[0]:
        for name in re.findall(r"`(test_\w+)`", row["test"]):
            assert hasattr(test_daemon, name), row
        assert row["a standby leads within"] in bounds


def test_the_times_are_those_of_the_code() -> None:
    timing = Timing()
    said = " ".join(TEXT.split())
    for words in (
        f"after {timing.lease:g} s of silence",
        f"no answer came within {timing.answer:g} s",
        f"it waits {timing.grace:g} s",
        f"mails after {timing.outage / 60:g} min",
        f"a standby mails after {timing.standby_outage / 60:g} min",
        f"mails after {timing.location:g} s",
        f"exit status {LOST}",
        f"more than {timing.skew:g} s off the database's clock",
        f"nobody else has for {timing.second_choice:g} s",
    ):
        assert words in said
    assert timing.ping == 1
    assert timing.poll == 1 / 4


def test_a_leader_that_was_killed_or_frozen_is_followed_in_the_promised_time() -> None:
    timing = Timing()
    assert timing.poll + timing.grace < test_daemon.KILLED
    assert timing.ping + timing.lease + timing.poll + timing.grace < test_daemon.FROZEN


def test_what_the_daemon_tells_is_told_within_five_minutes() -> None:
    timing = Timing()
    # Dagster waits for a code server's start for so long.
    code_server = 180
    assert max(timing.outage, timing.standby_outage, code_server + timing.location) < 300


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_stopping_a_unit_spares_the_refreshes_that_run(path: Path) -> None:
    service = unit(path)["Service"]
    assert service["KillMode"] == "process"
    assert service["Restart"] == "always"
    if "daemon" in path.name:
        assert float(service["TimeoutStopSec"]) > read_drain({})


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_what_there_is(path: Path) -> None:
    command = unit(path)["Service"]["ExecStart"].split()
    assert command[0].removeprefix("/opt/refresh-assets/.venv/bin/") in {"refresh-assets", "dagster-webserver"}
    assert path.name in TEXT


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    # Where there is no systemd, the tests above have read them.
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    # It looks for the program.
    here = tmp_path / path.name
    text = path.read_text(encoding="utf-8")
    here.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(here)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")

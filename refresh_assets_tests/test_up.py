"""`refresh-assets up` as a person and a system see it: processes, signals, pages, printed lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from refresh_assets.local.first_refresh import PATIENCE
from refresh_assets.local.processes import is_alive, marked
from refresh_assets.postgres import embedded
from refresh_assets.postgres.cluster import postmaster
from refresh_assets_tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

UP = """
import sys
from refresh_assets.local.up import up
sys.exit(up(port=int(sys.argv[1]), echo=lambda line: print(line, flush=True), first_refreshes=[sys.argv[2:]]))
"""
QUICK = (sys.executable, "-c", "print('refreshed')")
ENDLESS = (sys.executable, "-c", "import signal; print('begun', flush=True); signal.pause()")
PORT = 23400


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return what a login gives, without any setting of ours but the home."""
    ours = ("PG", "REFRESH_", "DAGSTER_", "LEARN_", "SMTP_", "ALERT_", "MAKE")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {"REFRESH_HOME": str(home), **more}


class Up:
    """A running `up` with what it has printed so far."""

    def __init__(
        self,
        env: dict[str, str],
        first_refresh: Sequence[str] = QUICK,
        launcher: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        command = [*launcher, sys.executable, "-c", UP, str(PORT), *first_refresh]
        self.process = subprocess.Popen(
            command, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.home = env["REFRESH_HOME"]
        self.printed = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line

    def wait_for(self, text: str, seconds: float = 120) -> None:
        wait_until(lambda: text in self.printed or self.process.poll() is not None, seconds)
        assert text in self.printed, self.printed

    def ended(self, seconds: float = 60) -> int:
        self.process.wait(seconds)
        self._reader.join(10)
        return self.process.returncode

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def printed_after(self, label: str) -> str:
        return next(line for line in self.printed.splitlines() if line.startswith(label)).removeprefix(label).strip()


def left_of(home: Path) -> list[str]:
    """Return the command lines of every living process that belongs to this home, found by two ways."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            ours = str(home) in " ".join(process.info["cmdline"] or ()) or process.environ().get("REFRESH_HOME") == str(
                home
            )
            if ours and is_alive(process):
                found.append(" ".join(process.info["cmdline"]))
    return found


def child(home: Path, kind: str) -> psutil.Process:
    """Return a child of `up` by its kind."""
    for process in marked(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            if ["refresh_assets.local.child", kind] == process.cmdline()[2:4]:
                return process
    pytest.fail(f"no child {kind}")


@pytest.fixture
def home(open_folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = open_folder / f"up-{os.getpid()}-{abs(hash(request.node.nodeid))}"
    yield folder
    with contextlib.suppress(OSError, ValueError):
        os.kill(json.loads((folder / "up.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not left_of(folder))


@pytest.mark.slow
def test_it_serves_the_ui_and_prints_where_everything_is_and_sigterm_ends_all(home: Path) -> None:
    up = Up(environment(home))
    up.wait_for("Ctrl-C stops all")
    answer = httpx.get(up.printed_after("UI") + "/server_info", timeout=10)
    assert "dagster_webserver_version" in answer.json()
    line = up.printed_after("psql") + " -Atc 'SELECT 40 + 2'"
    opened = subprocess.run(line, shell=True, env={}, capture_output=True, text=True, timeout=30, check=False)  # noqa: S602
    assert (opened.stdout, opened.stderr) == ("42\n", "")
    code = f"export {up.printed_after('export')}; {sys.executable} -m refresh_assets.cli check --mail"
    checked = subprocess.run(code, shell=True, env={}, capture_output=True, text=True, timeout=60, check=False)  # noqa: S602
    assert checked.returncode == 0, checked.stdout
    assert "ok     mail: a test mail went to you@localhost" in checked.stdout
    assert up.printed_after("files") == str(home)
    assert up.printed_after("mail") == f"caught in {home / 'mail'}, nobody else gets it"
    assert "started here" in up.printed_after("database")
    assert "\nrefreshed\n" in up.printed
    password = (home / "postgres" / "pgpass").read_text().strip().rpartition(":")[2]
    assert password not in up.printed
    assert not [line for line in left_of(home) if password in line]
    assert up.stop() == 0
    assert left_of(home) == []


@pytest.mark.slow
def test_killed_it_leaves_nothing_and_starts_again_with_its_data(home: Path) -> None:
    up = Up(environment(home))
    up.wait_for("Ctrl-C stops all")
    server = embedded.start(home)
    psql = [str(server.psql), "-qc", "CREATE TABLE kept AS SELECT 7 AS x"]
    subprocess.run(psql, env=server.environment(), check=True, timeout=30)
    up.process.kill()
    again = Up(environment(home), ENDLESS)
    again.wait_for("begun")
    assert not [line for line in left_of(home) if "child webserver" in line or "child daemon" in line]
    psql = [str(server.psql), "-Atc", "SELECT x FROM kept"]
    done = subprocess.run(psql, env=server.environment(), capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "7\n"
    again.process.kill()
    again.ended()
    up.ended()
    wait_until(lambda: not left_of(home), 30)


@pytest.mark.slow
def test_a_second_one_points_at_the_first(home: Path) -> None:
    first = Up(environment(home), ENDLESS)
    first.wait_for("begun")
    second = Up(environment(home))
    assert second.ended() == 1
    assert f"runs already for {home} (pid {first.process.pid})" in second.printed
    assert first.process.poll() is None
    assert first.stop() == 0


@pytest.mark.slow
def test_one_that_is_started_while_the_last_one_ends_waits_for_it(home: Path) -> None:
    first = Up(environment(home))
    first.wait_for("Ctrl-C stops all")
    first.process.send_signal(signal.SIGTERM)
    first.wait_for("stopping")
    second = Up(environment(home), ENDLESS)
    second.wait_for("begun")
    assert first.ended() == 0
    assert second.stop() == 0


@pytest.mark.slow
def test_a_child_and_a_database_that_die_are_told_and_started_again(home: Path) -> None:
    up = Up(environment(home))
    up.wait_for("Ctrl-C stops all")
    child(home, "daemon").kill()
    up.wait_for("the daemon ended by itself (signal 9)")
    up.wait_for("started the daemon again")
    running = postmaster(home / "postgres" / "data")
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    up.wait_for("the database ended by itself and is started again")
    wait_until(lambda: postmaster(home / "postgres" / "data") is not None)
    assert up.stop() == 0
    assert left_of(home) == []


@pytest.mark.slow
def test_ctrl_c_during_the_first_refresh_ends_all(home: Path) -> None:
    up = Up(environment(home), ENDLESS)
    up.wait_for("begun")
    up.process.send_signal(signal.SIGINT)
    assert up.ended() == 0
    assert left_of(home) == []
    assert "Traceback" not in up.printed


@pytest.mark.slow
def test_a_second_ctrl_c_kills_what_does_not_end(home: Path) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); signal.pause(); signal.pause()"
    up = Up(environment(home), (sys.executable, "-c", code))
    up.wait_for("deaf")
    began = time.monotonic()
    up.process.send_signal(signal.SIGINT)
    up.wait_for("stopping the refresh")
    up.process.send_signal(signal.SIGINT)
    assert up.ended() == 0
    assert time.monotonic() - began < PATIENCE
    assert left_of(home) == []


@pytest.mark.slow
def test_when_the_make_that_started_it_is_killed_it_ends(home: Path) -> None:
    make = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    up = Up(environment(home, MAKELEVEL="1"), ENDLESS, launcher=make)
    up.wait_for("begun")
    up.process.kill()
    wait_until(lambda: not left_of(home), 30)
    up.ended()


@pytest.mark.slow
def test_when_the_terminal_of_make_goes_away_it_ends(home: Path) -> None:
    master, slave = os.openpty()
    up = Up(environment(home, MAKELEVEL="1"), ENDLESS, stdin=slave)
    os.close(slave)
    up.wait_for("begun")
    os.close(master)
    assert up.ended() == 0
    assert left_of(home) == []


@pytest.mark.slow
def test_a_first_refresh_that_fails_is_told_and_the_ui_is_served_on_the_next_free_port(home: Path) -> None:
    code = "import sys; sys.exit('no such publisher')"
    with socket.create_server(("127.0.0.1", PORT)):
        up = Up(environment(home), (sys.executable, "-c", code))
        up.wait_for("Ctrl-C stops all")
    assert "the refresh failed (exit code 1)" in up.printed
    assert "no such publisher" in up.printed
    assert f"port {PORT} is taken" in up.printed
    assert up.printed_after("UI") != f"http://127.0.0.1:{PORT}"
    assert up.stop() == 0


def shown_environment(env: dict[str, str]) -> dict[str, str]:
    """Return the environment that the first refresh of such an `up` is given."""
    code = "import json, os, signal; print('ENV', json.dumps(dict(os.environ)), flush=True); signal.pause()"
    up = Up(env, (sys.executable, "-c", code))
    up.wait_for("ENV ")
    wait_until(lambda: up.printed.endswith("}\n"))
    assert up.stop() == 0
    shown: dict[str, str] = json.loads(up.printed_after("ENV"))
    return shown


@pytest.mark.slow
def test_the_bundled_files_are_the_source_of_the_embedded_server_alone(home: Path, database: dict[str, str]) -> None:
    embedded_env = shown_environment(environment(home, PGPASSWORD="another server's"))
    assert embedded_env["LEARN_BASE"].startswith("file:///")
    assert embedded_env["LEARN_BASE"].endswith("/refresh_assets/published_files")
    assert "PGPASSWORD" not in embedded_env
    team_env = shown_environment(environment(home, **database))
    assert "LEARN_BASE" not in team_env
    assert {name: team_env[name] for name in database} == database


@pytest.mark.slow
def test_a_base_address_that_is_given_is_kept(home: Path) -> None:
    assert shown_environment(environment(home, LEARN_BASE="file:///elsewhere"))["LEARN_BASE"] == "file:///elsewhere"


@pytest.mark.slow
def test_with_a_server_of_the_teams_none_is_started(home: Path, database: dict[str, str]) -> None:
    up = Up(environment(home, **database), ENDLESS)
    up.wait_for("begun")
    assert not (home / "postgres").exists()
    assert up.stop() == 0


def test_half_of_the_postgres_settings_are_refused_before_anything_starts(home: Path) -> None:
    up = Up(environment(home, PGHOST="127.0.0.1", HOME=str(home)))
    assert up.ended() == 1
    assert "not set in this environment: PGPORT, PGUSER, PGDATABASE, PGPASSWORD or a password file" in up.printed
    assert not home.exists()


def test_a_server_of_the_teams_that_does_not_answer_is_told(
    home: Path, database: dict[str, str], postgres_server: embedded.EmbeddedServer
) -> None:
    up = Up(environment(home, **{**database, "PGDATABASE": "no_such_database"}))
    assert up.ended() == 1
    assert 'database "no_such_database" does not exist' in up.printed
    assert postgres_server.password() not in up.printed

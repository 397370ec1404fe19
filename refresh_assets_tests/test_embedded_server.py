"""The embedded server: made, started, attached to, stopped, found again after every kind of death."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.local.processes import is_alive
from refresh_assets.postgres import embedded
from refresh_assets.postgres.account import is_root, server_account
from refresh_assets.postgres.binaries import Binaries, bundled, readable_by
from refresh_assets.postgres.cluster import Postmaster, folder_of, postmaster
from refresh_assets_tests.waiting import wait_until

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAST = {"fsync": "off"}


@pytest.fixture
def home(open_folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = open_folder / f"server-{os.getpid()}-{abs(hash(request.node.nodeid))}"
    yield folder
    embedded.stop(folder)


def value(server: embedded.EmbeddedServer, statement: str) -> object:
    with psycopg.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        dbname=server.database,
        passfile=str(server.password_file),
        autocommit=True,
        connect_timeout=10,
    ) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def running(server: embedded.EmbeddedServer) -> Postmaster:
    found = postmaster(server.data)
    assert found is not None
    return found


def test_its_environment_opens_the_database_with_the_bundled_psql(postgres_server: embedded.EmbeddedServer) -> None:
    command = [str(postgres_server.psql), "-Atc", "SELECT current_database(), current_user"]
    done = subprocess.run(
        command, env=postgres_server.environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("refresh|refresh", "")


def test_a_connection_without_the_password_is_refused(postgres_server: embedded.EmbeddedServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host=postgres_server.host, port=postgres_server.port, user="refresh", dbname="refresh", password="wrong"
        )


def test_the_password_is_in_a_file_for_its_owner_alone_and_in_no_argument_list(
    postgres_server: embedded.EmbeddedServer,
) -> None:
    assert stat.S_IMODE(postgres_server.password_file.stat().st_mode) == 0o600
    arguments = " ".join(psutil.Process(running(postgres_server).pid).cmdline())
    assert postgres_server.password() not in arguments
    assert postgres_server.password() not in repr(postgres_server)


def test_it_listens_on_this_machine_only(postgres_server: embedded.EmbeddedServer) -> None:
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(running(postgres_server).pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_text_is_utf8_and_ordered_by_code_point(postgres_server: embedded.EmbeddedServer) -> None:
    assert value(postgres_server, "SHOW server_encoding") == "UTF8"
    assert value(postgres_server, "SELECT string_agg(x, '' ORDER BY x) FROM unnest('{a,B,ä,b}'::text[]) x") == "Babä"


def test_settings_of_another_server_do_not_disturb_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "PGPASSWORD": "another server's",
        "PGHOSTADDR": "192.0.2.1",
        "PGSSLMODE": "verify-full",
        "PGOPTIONS": "-c no_such_setting=1",
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "LC_ALL": "no_such_locale",
    }.items():
        monkeypatch.setenv(name, text)
    server = embedded.start(home, settings=FAST)
    assert embedded.start(home) == server


def test_a_second_start_attaches_to_the_same_server(home: Path) -> None:
    first = embedded.start(home, settings=FAST)
    before = running(first)
    assert embedded.start(home) == first
    assert running(first) == before


def test_four_starts_at_once_make_one_server(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        servers = list(pool.map(lambda _: embedded.start(home, settings=FAST), range(4)))
    assert len(set(servers)) == 1
    assert value(servers[0], "SELECT 1") == 1
    data = str(servers[0].data)
    postmasters = [p for p in psutil.process_iter(["cmdline"]) if data in (p.info["cmdline"] or ())]
    assert len(postmasters) == 1


def test_four_processes_that_start_at_once_get_one_server(home: Path) -> None:
    code = (
        "import pathlib, sys; from refresh_assets.postgres import embedded;"
        "print(embedded.start(pathlib.Path(sys.argv[1])).port)"
    )
    command = [sys.executable, "-c", code, str(home)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    ports = {process.communicate(timeout=120)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert ports == {f"{running(embedded.start(home)).port}\n"}


def test_stopped_and_started_again_it_has_its_port_and_its_rows(home: Path) -> None:
    first = embedded.start(home, settings=FAST)
    value(first, "CREATE TABLE kept AS SELECT 7 AS x")
    first.stop()
    assert postmaster(first.data) is None
    second = embedded.start(home, settings=FAST)
    assert second == first
    assert value(second, "SELECT x FROM kept") == 7


def test_where_its_port_was_taken_it_gets_another(home: Path) -> None:
    first = embedded.start(home, settings=FAST)
    first.stop()
    with socket.create_server(("127.0.0.1", first.port)):
        second = embedded.start(home, settings=FAST)
    assert second.port != first.port
    assert value(second, "SELECT 1") == 1


def test_stopping_twice_and_stopping_nothing_does_no_harm(home: Path, tmp_path: Path) -> None:
    server = embedded.start(home, settings=FAST)
    server.stop()
    server.stop()
    embedded.stop(tmp_path / "nowhere")


def test_a_connected_client_does_not_keep_it_from_stopping(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    client = psycopg.connect(
        host=server.host, port=server.port, user="refresh", dbname="refresh", password=server.password()
    )
    client.execute("SELECT 1")
    server.stop(timeout=20)
    assert postmaster(server.data) is None
    client.close()


def test_killed_it_starts_again_at_once_with_what_was_committed(home: Path) -> None:
    server = embedded.start(home)
    value(server, "CREATE TABLE kept AS SELECT 7 AS x")
    killed = psutil.Process(running(server).pid)
    killed.kill()
    wait_until(lambda: not is_alive(killed))
    again = embedded.start(home)
    assert value(again, "SELECT x FROM kept") == 7


def test_a_stale_pid_file_that_names_another_program_is_no_server(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    lines = (server.data / "postmaster.pid").read_text().splitlines()
    server.stop()
    with subprocess.Popen(["sleep", "60"]) as other:
        (server.data / "postmaster.pid").write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        try:
            again = embedded.start(home, settings=FAST)
            assert value(again, "SELECT 1") == 1
            assert other.poll() is None
        finally:
            other.kill()


def test_a_stale_pid_file_that_names_another_postgres_is_no_server(
    home: Path, postgres_server: embedded.EmbeddedServer
) -> None:
    server = embedded.start(home, settings=FAST)
    lines = (server.data / "postmaster.pid").read_text().splitlines()
    server.stop()
    stale = "\n".join([str(running(postgres_server).pid), *lines[1:]]) + "\n"
    (server.data / "postmaster.pid").write_text(stale)
    assert value(embedded.start(home, settings=FAST), "SELECT 1") == 1


def test_an_initdb_that_was_cut_short_is_begun_anew(home: Path) -> None:
    embedded.start(home, settings=FAST).stop()
    folder = folder_of(home)
    (folder / "data").rename(folder / "data.unfinished")
    (folder / "data.unfinished" / "PG_VERSION").unlink()
    assert value(embedded.start(home, settings=FAST), "SELECT 1") == 1
    assert not (folder / "data.unfinished").exists()


def test_a_server_that_cannot_start_is_told_with_the_end_of_its_log(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    server.stop()
    with (server.data / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(RefreshError, match="did not start") as told:
        embedded.start(home, settings=FAST)
    assert "no_such_setting" in str(told.value)


def test_a_database_of_another_major_version_is_refused_by_its_name(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    server.stop()
    (server.data / "PG_VERSION").write_text("12\n")
    with pytest.raises(RefreshError, match=r"was made by PostgreSQL 12 and the bundled one is \d+"):
        embedded.start(home)


def test_a_lost_password_file_is_told_and_the_database_is_kept(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    server.stop()
    server.password_file.unlink()
    with pytest.raises(RefreshError, match="pgpass is missing"):
        embedded.start(home)
    assert server.data.is_dir()


def test_a_large_log_is_put_aside_at_the_start(home: Path) -> None:
    server = embedded.start(home, settings=FAST)
    server.stop()
    with server.log.open("ab") as log:
        log.write(b"x" * (embedded.LOG_BYTES + 1))
    embedded.start(home, settings=FAST)
    assert server.log.stat().st_size < embedded.LOG_BYTES
    assert server.log.with_name("server.log.1").is_file()


def test_a_folder_that_others_may_write_into_is_refused(home: Path) -> None:
    folder = home / "postgres"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(RefreshError, match="others may write into"):
        embedded.start(home)


def test_a_link_in_place_of_the_folder_is_refused(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / "postgres").symlink_to(tmp_path)
    with pytest.raises(RefreshError, match="must be a folder and not a link"):
        embedded.start(home)


if is_root():

    def test_for_root_a_closed_home_gets_a_server_outside_of_it(home: Path) -> None:
        home.mkdir()
        home.chmod(0o700)
        server = embedded.start(home, settings=FAST)
        try:
            assert home not in server.data.parents
            assert value(server, "SELECT 1") == 1
            home.chmod(0o755)
            assert embedded.start(home) == server
        finally:
            server.stop()
            subprocess.run(["rm", "-rf", "--", str(server.folder)], check=True)

    def test_for_root_a_folder_of_another_user_is_refused(home: Path) -> None:
        account = server_account(home)
        assert account is not None
        (home / "postgres").mkdir(parents=True)
        os.chown(home / "postgres", account.uid, account.gid)
        with pytest.raises(RefreshError, match=f"belongs to user number {account.uid}"):
            embedded.start(home)

    def test_for_root_programs_that_the_account_cannot_read_are_copied(tmp_path: Path, open_folder: Path) -> None:
        account = server_account(tmp_path / "data")
        closed = tmp_path / "site-packages"
        package = bundled().package
        subprocess.run(["cp", "-a", str(package), f"{package}.libs", str(tmp_path)], check=True)
        closed.mkdir(mode=0o700)
        for folder in (tmp_path / package.name, tmp_path / f"{package.name}.libs"):
            folder.rename(closed / folder.name)
        given = Binaries(closed / package.name / "pginstall" / "bin")
        copied = readable_by(account, given, open_folder)
        assert copied.bin.is_relative_to(open_folder)
        assert copied.program("initdb").stat().st_mode & 0o777 == 0o755
        assert readable_by(account, given, open_folder) == copied
        assert not list(open_folder.glob("unfinished-*"))

    def test_a_user_other_than_root_starts_it_under_his_own_name(home: Path) -> None:
        account = server_account(home)
        assert account is not None
        home.mkdir()
        os.chown(home, account.uid, account.gid)
        # A copy of this process and not a new one: the interpreter may lie where that user cannot read.
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(account.gid)
                os.setuid(account.uid)
                server = embedded.start(home, settings=FAST)
                code = 0 if value(server, "SELECT 1") == 1 and server.data.stat().st_uid == account.uid else 2
                server.stop()
            finally:
                os._exit(code)
        wait_until(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

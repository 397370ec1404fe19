"""A pooler before the database: refused where it lends sessions by the transaction."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from refresh_assets.daemon.lease import Lease
from refresh_assets.daemon.refused import RefusedError
from refresh_assets.daemon.register import connect_register
from refresh_assets_tests.shop import Shop
from refresh_assets_tests.smtp_server import free_port
from refresh_assets_tests.waiting import wait_until
from refresh_assets_tests.wire import transaction_pooler

pytestmark = pytest.mark.slow


@pytest.fixture
def env(database: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.delenv("DAGSTER_POSTGRES_URL", raising=False)
    return database


def test_a_pooler_that_lends_sessions_by_the_transaction_is_refused(env: dict[str, str]) -> None:
    with transaction_pooler(env) as pooled, pytest.raises(RefusedError, match="by the transaction"):
        Lease.open(pooled)


def test_a_busy_pooler_is_refused_too(env: dict[str, str]) -> None:
    with transaction_pooler(env) as pooled:
        done = threading.Event()

        def work() -> None:
            with connect_register(pooled) as conn:
                while not done.is_set():
                    conn.execute("SELECT 1")

        others = [threading.Thread(target=work) for _other in range(3)]
        try:
            for other in others:
                other.start()
            for _attempt in range(5):
                with pytest.raises(RefusedError):
                    Lease.open(pooled)
        finally:
            done.set()
            for other in others:
                other.join()


def test_a_pooler_that_gives_each_client_its_own_session_back_for_a_while_is_refused_too(env: dict[str, str]) -> None:
    with transaction_pooler(env, loyalty=15) as pooled, pytest.raises(RefusedError):
        Lease.open(pooled)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_pgbouncer_is_refused_unless_it_pools_by_the_session(env: dict[str, str], open_folder: Path, mode: str) -> None:
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    assert program, "this test needs PgBouncer (Debian: apt install pgbouncer)"
    folder = open_folder / f"pgbouncer-{mode}"
    folder.mkdir()
    folder.chmod(0o777)
    port = free_port()
    (folder / "users.txt").write_text(f'"{env["PGUSER"]}" "{env["PGPASSWORD"]}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={env['PGHOST']} port={env['PGPORT']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = users.txt\n"
        f"pool_mode = {mode}\nlogfile = {folder}/log\nignore_startup_parameters = extra_float_digits,options\n"
    )
    # It does not run as root.
    command = [program, *(["-u", "nobody"] if os.geteuid() == 0 else []), "pgbouncer.ini"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        pooled = {**env, "PGHOST": "127.0.0.1", "PGPORT": str(port)}
        wait_until(lambda: _listens(port))
        if mode == "transaction":
            with pytest.raises(RefusedError):
                Lease.open(pooled)
        else:
            lease = Lease.open(pooled)
            assert lease.try_lock()
            assert lease.ping()
            lease.release()
    finally:
        process.terminate()
        process.wait(10)


def test_a_daemon_behind_a_pooler_ends_with_a_message(shop: Shop) -> None:
    with transaction_pooler(shop.env) as pooled:
        code, out, err = shop.run("daemon", **pooled)
    assert code == 1
    assert "refresh-assets daemon: the database is reached through a pooler" in err
    assert shop.env["PGPASSWORD"] not in out + err


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0

"""The promises of docs/scheduling.md, each kept by real `refresh-assets daemon` processes on one database."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from refresh_assets.daemon.guard import LOST
from refresh_assets.daemon.timing import Timing
from refresh_assets.postgres import embedded
from refresh_assets_tests.postgres_fixtures import new_database
from refresh_assets_tests.relay import Relay, Runner, relay_on
from refresh_assets_tests.smtp_server import Caught, catching
from refresh_assets_tests.test_ping import watching
from refresh_assets_tests.watchtower import mail_settings
from refresh_assets_tests.wire import line_to

pytestmark = pytest.mark.slow
KILLED, FROZEN, HANDED_OVER = 6.0, 15.0, 1.0
END_SESSION = "SELECT pg_terminate_backend(lease_pid) FROM refresh_daemon.participant WHERE state = 'leader'"


def pair(relay: Relay) -> tuple[Runner, Runner]:
    """Start a leader and a standby."""
    one, two = relay.start("etl-1"), relay.start("etl-2")
    relay.wait(relay.leader)
    leader, standby = (one, two) if relay.leader() == one.pid else (two, one)
    relay.stands_by(standby)
    return leader, standby


def next_to(relay: Relay, host: str) -> Runner:
    """Start another standby."""
    standby = relay.start(host)
    relay.stands_by(standby)
    return standby


def test_whatever_happens_to_the_leader_the_standby_leads_in_time_and_no_slot_runs_twice(relay: Relay) -> None:
    leader, standby = pair(relay)

    leader.send(signal.SIGKILL)
    assert relay.leads(standby) < KILLED

    leader, standby = standby, next_to(relay, "etl-1")
    relay.rows(END_SESSION)
    assert relay.leads(standby) < KILLED
    assert leader.ended(5) == LOST

    leader, standby = standby, next_to(relay, "etl-2")
    leader.send(signal.SIGTERM)
    assert relay.leads(standby) < HANDED_OVER
    assert leader.ended(10) == 0

    leader, standby = standby, next_to(relay, "etl-1")
    leader.send(signal.SIGSTOP)
    assert relay.leads(standby) < FROZEN
    leader.send(signal.SIGCONT)
    assert leader.ended(5) == LOST

    relay.wait(relay.slots, 90)
    assert set(relay.slots().values()) == {1}


def test_a_leader_whose_line_goes_dead_ends_itself_and_the_standby_leads_in_time(relay: Relay) -> None:
    with line_to(relay.env) as (line, through):
        leader = relay.start("etl-1", env=through)
        relay.leads(leader)
        standby = next_to(relay, "etl-2")
        line.cut()
        began = time.monotonic()
        assert leader.ended(FROZEN) == LOST
        assert time.monotonic() - began < KILLED
        relay.leads(standby, FROZEN)
        assert time.monotonic() - began < FROZEN


def test_a_stopping_leader_lets_runs_finish_and_names_those_that_it_leaves(relay: Relay) -> None:
    leader = relay.start("etl-1", env={"WORK_SECONDS": "12", "REFRESH_STOP_TIMEOUT": "3"})
    relay.leads(leader)
    standby = next_to(relay, "etl-2")
    Path(relay.env["ASK_FILE"]).write_text("tonight")
    ((run_id,),) = relay.wait(lambda: relay.rows("SELECT run_id FROM dagster.runs WHERE status = 'STARTED'"))
    leader.send(signal.SIGTERM)
    began = time.monotonic()
    assert relay.leads(standby) < HANDED_OVER
    assert leader.ended(20) == 0
    assert time.monotonic() - began > 3
    assert f"left running: slot, run {run_id}, STARTED" in leader.text
    relay.wait(lambda: relay.rows(f"SELECT status FROM dagster.runs WHERE run_id = '{run_id}'") == [("SUCCESS",)])


def test_a_host_with_a_wrong_clock_leads_only_where_nobody_else_does(relay: Relay) -> None:
    right = relay.start("etl-1")
    relay.leads(right)
    wrong = relay.start("etl-2", ahead=3600, shortened={"second_choice": 8.0})
    relay.stands_by(wrong)
    assert "this host's clock is 3600 s ahead of the database's" in wrong.text
    right.send(signal.SIGKILL)
    assert relay.leads(wrong) > 8 + Timing().grace


SHORTENED = {"outage": 1.0, "standby_outage": 20.0, "location": 2.0, "refresh": 3.0, "again": 2.0}


def subjects(mails: list[Caught]) -> list[str]:
    return [str(caught.mail["Subject"]) for caught in mails]


def test_that_the_database_takes_no_new_connection_of_a_leader_is_mailed_and_its_end_too(relay: Relay) -> None:
    role = f"leader_{relay.env['PGDATABASE']}"
    relay.admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'first'")
    try:
        with catching() as mailserver:
            relay.env |= {**mail_settings(mailserver), "PGUSER": role, "PGPASSWORD": "first"}
            leader = relay.start("etl-1", shortened={**SHORTENED, "ask": 0.5})
            relay.leads(leader)
            relay.admin.execute(f"ALTER ROLE {role} PASSWORD 'second'")
            relay.wait(lambda: mailserver.mails)
            assert subjects(mailserver.mails)[0].startswith("[refresh] database is gone: no connection to the database")
            assert "first" not in mailserver.mails[0].text()
            assert relay.leader() == leader.pid
            relay.admin.execute(f"ALTER ROLE {role} PASSWORD 'first'")
            relay.wait(lambda: "[refresh] database recovered" in subjects(mailserver.mails))
    finally:
        relay.stop()
        relay.admin.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def test_that_the_database_is_gone_is_mailed_once_and_its_return_too(open_folder: Path, tmp_path: Path) -> None:
    server = embedded.start(open_folder / "outage", settings={"fsync": "off"})
    try:
        with (
            watching() as watcher,
            catching() as mailserver,
            new_database(server) as database,
            relay_on(database, tmp_path) as relay,
        ):
            relay.env |= {**mail_settings(mailserver), "ALERT_PING_URL": f"{watcher.base}/ping/1"}
            leader = relay.start("etl-1", shortened=SHORTENED)
            relay.leads(leader)
            standby = relay.start("etl-2", shortened=SHORTENED)
            relay.stands_by(standby)
            server.stop()
            assert leader.ended(KILLED) == LOST
            # As a service manager does.
            again = relay.start("etl-1", shortened=SHORTENED)
            relay.wait(lambda: mailserver.mails)
            assert subjects(mailserver.mails)[0].startswith("[refresh] database is gone: no connection to the database")
            assert "Nothing is refreshed meanwhile" in mailserver.mails[0].text()
            relay.wait(lambda: [path for _method, path, _body in watcher.seen] == ["/ping/1/fail"])
            time.sleep(2)
            server = embedded.start(open_folder / "outage", settings={"fsync": "off"})
            relay.reconnect()
            relay.wait(lambda: relay.leader() in {standby.pid, again.pid})
            relay.wait(lambda: len(mailserver.mails) > 1)
            assert subjects(mailserver.mails)[1:] == ["[refresh] database recovered"]
    finally:
        server.stop()


def test_that_a_code_location_does_not_load_is_mailed_once_and_when_it_loads_again(relay: Relay) -> None:
    code = relay.folder / "minutely.py"
    sound = code.read_text()
    with catching() as mailserver:
        relay.env |= mail_settings(mailserver)
        code.write_text("import no_such_module\n")
        leader = relay.start("etl-1", shortened=SHORTENED)
        relay.wait(lambda: mailserver.mails)
        (caught,) = mailserver.mails
        assert str(caught.mail["Subject"]).startswith("[refresh] code location minutely does not load: ")
        assert "No module named 'no_such_module'" in caught.text()
        leader.send(signal.SIGTERM)
        leader.ended()
        # The next leader tells nothing twice.
        relay.leads(relay.start("etl-2", shortened=SHORTENED))
        code.write_text(sound)
        relay.wait(lambda: len(mailserver.mails) > 1)
        assert subjects(mailserver.mails)[1:] == ["[refresh] code location minutely recovered"]

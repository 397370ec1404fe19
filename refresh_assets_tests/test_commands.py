"""`refresh-assets run` and `check` as processes: the words, the exit codes, and what they leave behind."""

from __future__ import annotations

import json
import re
import signal
import threading
from typing import Any

import pytest

from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows
from refresh_assets_tests.smtp_server import catching

pytestmark = pytest.mark.slow

A = dataset_rows(400, free=150)
B = [(A[0][0], "A corrected title", *A[0][2:]), *A[1:]]
C = [*B, *dataset_rows(401)[400:]]
LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 (INFO|ERROR) refresh: datasets: (.*)$")


def message(shop: Shop, *args: str, **env: str | None) -> tuple[int, str, str]:
    """Refresh datasets; return exit status, the level and the message of the one line on standard output."""
    code, out, err = shop.run("run", "--table", "datasets", *args, **env)
    found = LINE.match(out.rstrip("\n"))
    assert found, (out, err)
    return code, found[1], found[2]


def picture(shop: Shop) -> Any:
    return shop.rows("SELECT xmin::text, * FROM etl.datasets ORDER BY 2"), shop.rows("SELECT * FROM etl.refresh_state")


def test_the_sequence_of_publications_ends_with_exactly_these_messages_and_codes(shop: Shop) -> None:
    shop.publish(A)
    assert message(shop) == (0, "INFO", "first load: loaded 400 rows")
    assert message(shop) == (0, "INFO", "nothing changed: skipped")
    assert message(shop, REFRESH_LICENSES="CC0 1.0") == (0, "INFO", "config changed: loaded 150 rows")
    shop.publish(B)
    assert message(shop) == (0, "INFO", "config and input changed: loaded 400 rows")
    before = picture(shop)
    shop.publish(C, promised=400)
    assert message(shop) == (1, "ERROR", "failed: staged 401 rows; the manifest says 400")
    assert picture(shop) == before
    shop.publish(A)
    with connect(read_postgres(shop.env), "test other session") as other, other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl'))")
        assert message(shop) == (0, "INFO", "another refresh holds the lock: skipped")
    assert picture(shop) == before
    code, level, text = message(shop, PGDATABASE=None)
    assert (code, level) == (1, "ERROR")
    assert text.startswith("failed: not set in this environment: PGDATABASE")


def test_two_at_once_load_once_and_neither_fails(shop: Shop) -> None:
    shop.publish(A)
    shop.refresh()
    shop.publish(B)
    reports: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: reports.append(shop.refresh())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    outcomes = sorted(report["outcome"] for report in reports)
    assert outcomes in (["loaded", "locked"], ["loaded", "unchanged"])
    assert {report["exit"] for report in reports} == {0}


def test_json_has_the_exact_numbers_of_a_load(shop: Shop) -> None:
    shop.publish(A)
    first = shop.refresh()
    shop.publish([*B[:-1], *dataset_rows(401)[400:]])
    report = shop.refresh()
    assert {key: report[key] for key in ("table", "outcome", "rows_staged", "rows", "added", "changed", "removed")} == {
        "table": "datasets",
        "outcome": "loaded",
        "rows_staged": 400,
        "rows": 400,
        "added": 1,
        "changed": 1,
        "removed": 1,
    }
    assert report["changed_parts"] == ["input"]
    assert report["job_key"] != first["job_key"]
    assert re.fullmatch("[0-9a-f]{64}", report["job_key"])
    assert report["error"] is None


def test_settings_errors_are_told_as_json_as_well_and_without_a_value(shop: Shop) -> None:
    report = shop.refresh(PGHOST=None, PGPASSWORD=None, PGPORT="seven", REFRESH_LICENSES=" , ")
    assert (report["outcome"], report["exit"]) == ("failed", 1)
    assert report["error"].startswith("not set in this environment: PGHOST, PGPASSWORD or a password file")
    assert "PGPORT must be" in report["error"]
    assert "REFRESH_LICENSES lists no value" in report["error"]
    assert "seven" not in report["error"]


def test_a_traceback_goes_to_standard_error_and_the_password_nowhere(shop: Shop) -> None:
    shop.publish(A)
    shop.refresh()
    shop.admin.execute(
        "CREATE FUNCTION etl.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no % today', TG_OP; END $$"
    )
    shop.admin.execute("CREATE TRIGGER fail BEFORE UPDATE ON etl.datasets FOR EACH ROW EXECUTE FUNCTION etl.fail()")
    shop.publish(B)
    code, out, err = shop.run("run", "--table", "datasets")
    assert (code, out.count("\n")) == (1, 1)
    assert "failed: no UPDATE today" in out
    assert err.count("Stack Trace") == 1
    assert err.count("no UPDATE today") == 1
    assert shop.env["PGPASSWORD"] not in out + err


def test_an_everyday_failure_has_its_line_and_a_traceback_of_its_own_at_most(shop: Shop) -> None:
    shop.publish(A, promised=399)
    code, out, err = shop.run("run", "--table", "datasets")
    assert (code, err) == (1, "")
    assert "failed: staged 400 rows; the manifest says 399" in out
    code, out, err = shop.run("run", "--table", "datasets", LEARN_BASE="file:///nowhere")
    assert code == 1
    assert "/nowhere/learn/data/manifest.json does not exist" in out
    assert err.count("Stack Trace") == 1
    assert err.count("\n") < 60
    assert "dagster._core.errors" not in err


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_before_it_begins_says_so(shop: Shop, end: signal.Signals) -> None:
    shop.publish(A)
    process = shop.start("run", "--table", "datasets", "--json", PYTHONVERBOSE="1")
    assert process.stderr is not None
    # The first of the modules that take their time, long before the run.
    for line in process.stderr:
        if line.startswith("import 'dagster_shared'"):
            break
    process.send_signal(end)
    out, _err = process.communicate(timeout=60)
    report = json.loads(out)
    assert process.returncode == 1
    assert report["error"] == "the run was ended before it began; nothing was changed"
    assert shop.rows("SELECT to_regclass('etl.datasets')") == [(None,)]


def test_a_setting_of_alerts_that_cannot_be_used_is_told_and_stops_no_refresh(shop: Shop) -> None:
    shop.publish(A)
    wrong = {"REFRESH_MAX_AGE": "a week", "REFRESH_ALERT_INTERVAL": "often", "SMTP_PORT": "mail"}
    code, out, err = shop.run("run", "--table", "datasets", **wrong)
    assert (code, "first load: loaded 400 rows" in out) == (0, True)
    for name in wrong:
        assert f"a setting of alerts cannot be used: {name} must be" in err


def test_a_run_that_cannot_begin_is_told_by_mail(shop: Shop) -> None:
    with catching() as server:
        mail = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(server.port), "SMTP_SECURITY": "none", "ALERT_TO": "a@b.c"}
        code, _out, err = shop.run("run", PGPORT="1", **mail)
    assert (code, err) == (1, "")
    (caught,) = server.mails
    assert "failed: no connection to the database" in str(caught.mail["Subject"])


def test_a_run_is_recorded_in_dagsters_storage_with_the_origin_of_a_run_from_the_ui(shop: Shop) -> None:
    shop.publish(A)
    report = shop.refresh()
    run = shop.rows(f"SELECT status, run_body FROM dagster.runs WHERE run_id = '{report['run_id']}'")
    assert run[0][0] == "SUCCESS"
    origin = json.loads(run[0][1])["external_pipeline_origin"]
    assert origin["external_repository_origin"]["repository_location_origin"]["location_name"] == "refresh_assets"


def test_all_declared_tables_are_refreshed_with_a_line_each(shop: Shop) -> None:
    shop.publish(A)
    shop.publish_file("dataset_rights.csv", csv_text(rights_rows(7), RIGHTS_HEADER), 7)
    code, out, _err = shop.run("run")
    assert code == 0
    assert [line.split(" refresh: ")[1] for line in out.splitlines()] == [
        "dataset_rights: first load: loaded 7 rows",
        "datasets: first load: loaded 400 rows",
    ]


def test_one_failed_table_makes_the_exit_status_1_and_the_other_is_loaded(shop: Shop) -> None:
    shop.publish(A)
    code, out, _err = shop.run("run")
    assert code == 1
    assert "dataset_rights: failed: manifest.json: " in out
    assert "datasets: first load: loaded 400 rows" in out


def test_an_unknown_table_is_refused_with_those_that_are_declared(shop: Shop) -> None:
    code, out, _err = shop.run("run", "--table", "datasetz", "--json")
    assert code == 1
    assert json.loads(out)["error"] == "no such table: datasetz; declared are dataset_rights, datasets"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_ended_in_the_middle_leaves_the_old_rows_and_the_next_one_loads(shop: Shop, end: signal.Signals) -> None:
    shop.publish(A)
    shop.refresh()
    shop.admin.execute(
        "CREATE FUNCTION etl.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$"
    )
    shop.admin.execute("CREATE TRIGGER slow BEFORE UPDATE ON etl.datasets FOR EACH ROW EXECUTE FUNCTION etl.slow()")
    before = picture(shop)
    shop.publish(B)
    process = shop.start("run", "--table", "datasets")
    sleeping = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    for _ in range(1200):
        if shop.rows(sleeping):
            break
        assert process.poll() is None
        threading.Event().wait(0.05)
    process.send_signal(end)
    out, _err = process.communicate(timeout=60)
    assert process.returncode != 0
    if end == signal.SIGTERM:
        assert "failed: the run was ended before the table was refreshed" in out
        assert shop.rows("SELECT status FROM dagster.runs ORDER BY id DESC LIMIT 1") == [("FAILURE",)]
    # The server notices a dead client when it next talks to it; the test does not wait for its sleep to end.
    shop.rows(f"SELECT pg_terminate_backend(pid, 5000) FROM ({sleeping}) AS asleep")
    assert picture(shop) == before
    shop.admin.execute("DROP TRIGGER slow ON etl.datasets")
    assert shop.refresh()["outcome"] == "loaded"


def test_check_reports_each_thing_and_exits_0_where_all_is_well(shop: Shop) -> None:
    shop.publish(A)
    shop.publish_file("dataset_rights.csv", csv_text(rights_rows(7), RIGHTS_HEADER), 7)
    code, out, _err = shop.run("check")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "ok     settings",
        "ok     database",
        "ok     publisher",
        "--     mail",
    ]
    assert code == 0


def test_check_names_all_that_is_wrong_with_any_setting_at_once(shop: Shop) -> None:
    wrong = {"PGPORT": "x", "REFRESH_MAX_AGE": "x", "REFRESH_STUCK_AFTER": "x", "ALERT_TO": "x", "SMTP_SECURITY": "x"}
    code, out, _err = shop.run("check", **wrong, PGUSER=None)
    settings, *others = out.splitlines()
    assert code == 1
    assert settings.startswith("FAILED settings: not set in this environment: PGUSER, SMTP_HOST; ")
    for name in wrong:
        assert name in settings
    assert [line[:6] for line in others] == ["--    "] * 3


def test_check_names_what_is_wrong_with_the_settings_of_daemon_windows_and_pages(shop: Shop) -> None:
    wrong = {
        "REFRESH_STOP_TIMEOUT": "x",
        "REFRESH_SOURCE_URL": "x",
        "WINDOW_MIN_CELL": "x",
        "WINDOW_MAX_DELAY": "x",
        "WINDOW_START": "x",
    }
    nowhere = {"OPENLINEAGE_URL": "http://127.0.0.1:9"}
    code, out, _err = shop.run("check", **wrong, **nowhere, WINDOW_SOURCE="sample")
    settings, *others = out.splitlines()
    assert code == 1
    for name in wrong:
        assert f"{name} must be" in settings
    assert "OPENLINEAGE_URL is set and the library for it is not installed: pip install" in settings
    assert "--     event log: not looked at, the settings come first" in others
    code, out, _err = shop.run("check", WINDOW_SOURCE="sample", WINDOW_CRON="every day")
    assert code == 1
    assert "FAILED event log: WINDOW_CRON must be a cron expression such as 15 4 * * 1-5" in out.splitlines()


def test_check_looks_at_the_rights_that_are_needed_and_at_no_others(shop: Shop) -> None:
    shop.publish(A)
    shop.publish_file("dataset_rights.csv", csv_text(rights_rows(7), RIGHTS_HEADER), 7)
    shop.run("run")
    role = f"writer_{shop.env['PGDATABASE']}"
    shop.admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'a-passw0rd'")
    try:
        for schema in ("etl", "dagster", "refresh_alerts"):
            shop.admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            shop.admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
            shop.admin.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
        env = {"PGUSER": role, "PGPASSWORD": "a-passw0rd"}
        _code, out, _err = shop.run("check", **env)
        assert "FAILED database: role" in out
        assert "the right to create tables in schema 'refresh_alerts'" in out
        assert "'etl'" not in out
        shop.admin.execute(f"GRANT CREATE ON SCHEMA refresh_alerts TO {role}")
        shop.admin.execute(f"CREATE SCHEMA refresh_requests AUTHORIZATION {role}")
        _code, out, _err = shop.run("check", **env)
        assert "the right to create tables in schema 'refresh_daemon'" in out
        shop.admin.execute(f"CREATE SCHEMA refresh_daemon AUTHORIZATION {role}")
        code, out, _err = shop.run("check", **env)
        assert code == 0, out
        assert shop.run("run", **env)[0] == 0
        shop.admin.execute(f"REVOKE DELETE ON etl.datasets FROM {role}; REVOKE INSERT ON etl.refresh_loads FROM {role}")
        shop.admin.execute(f"DROP TABLE etl.dataset_rights; REVOKE USAGE ON SEQUENCE dagster.runs_id_seq FROM {role}")
        code, out, _err = shop.run("check", **env)
    finally:
        shop.admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert code == 1
    for words in (
        "DELETE on etl.datasets",
        "INSERT on etl.refresh_loads",
        "which has no dataset_rights",
        "USAGE on the sequences runs_id_seq of schema 'dagster'",
    ):
        assert words in out


def test_check_exits_1_and_names_what_is_wrong_without_the_password(shop: Shop) -> None:
    code, out, err = shop.run("check", PGPASSWORD="wr0ng-w0rd", LEARN_BASE="file:///nowhere")
    assert code == 1
    assert "FAILED database: no connection to the database" in out
    assert "FAILED publisher: /nowhere/learn/data/manifest.json does not exist" in out
    assert "wr0ng-w0rd" not in out + err


def test_a_password_file_is_enough(shop: Shop) -> None:
    shop.publish(A)
    path = shop.folder / "pass file"
    path.write_text(f"{shop.env['PGHOST']}:*:*:{shop.env['PGUSER']}:{shop.env['PGPASSWORD']}\n")
    path.chmod(0o600)
    assert shop.refresh(PGPASSWORD=None, PGPASSFILE=str(path))["outcome"] == "loaded"


def test_dagsters_storage_can_be_another_database(shop: Shop) -> None:
    shop.publish(A)
    name = f"{shop.env['PGDATABASE']}_storage"
    shop.admin.execute(f'CREATE DATABASE "{name}"')
    try:
        where = f"{shop.env['PGUSER']}:{shop.env['PGPASSWORD']}@{shop.env['PGHOST']}:{shop.env['PGPORT']}/{name}"
        assert shop.refresh(DAGSTER_POSTGRES_URL=f"postgresql://{where}")["outcome"] == "loaded"
        assert shop.rows("SELECT to_regnamespace('dagster')") == [(None,)]
    finally:
        shop.admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_an_unusable_storage_url_is_named_and_not_shown(shop: Shop) -> None:
    report = shop.refresh(DAGSTER_POSTGRES_URL="postgres//me:s3cret-w0rd@x")
    assert report["error"] == "DAGSTER_POSTGRES_URL is not a database URL"

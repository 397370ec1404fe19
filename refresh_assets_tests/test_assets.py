"""The assets as Dagster runs them: what they hand over, what they tell, and what the checks find."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import psycopg
import pytest

from refresh_assets.published import assets
from refresh_assets.published.files import checked, publisher_of
from refresh_assets.published.io_managers import PublishedFileIOManager
from refresh_assets.settings import read_settings
from refresh_assets_tests.floor import CSV, TABLE, Floor, failed, reason, verdicts
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import HEADER, RIGHTS_HEADER, dataset_rows, rights_rows

pytestmark = pytest.mark.slow

CHECKS = {"row_count", "key_unique", "rows_accounted_for", "drift", "versions", "verified", "as_published"}


def test_a_refresh_fetches_checks_and_loads(floor: Floor) -> None:
    result = floor.run()
    assert len(floor.shop.rows()) == 40
    assert set(verdicts(result)) == CHECKS
    assert failed(result) == set()
    told = floor.told()
    assert (told["outcome"], told["dagster/row_count"], told["added"]) == ("loaded", 40, 40)
    assert told["dagster/table_name"] == f"{floor.shop.env['PGDATABASE']}.etl.datasets"


def test_a_run_with_nothing_to_do_materializes_with_the_same_data_version(floor: Floor) -> None:
    floor.run()
    version = floor.version()
    result = floor.run()
    assert floor.told()["outcome"] == "unchanged"
    assert floor.version() == version == floor.told()["job_key"]
    assert set(verdicts(result)) == CHECKS


def test_the_files_data_version_is_its_sha256(floor: Floor) -> None:
    floor.run()
    assert floor.version(CSV) == floor.shop.manifest["datasets.csv"]["sha256"]


def test_each_asset_can_be_materialized_alone(floor: Floor) -> None:
    floor.run(assets.MANIFEST)
    floor.run(CSV)
    floor.run(TABLE)
    assert len(floor.shop.rows()) == 40
    floor.shop.publish(dataset_rows(41))
    floor.run(CSV)
    floor.run(TABLE)
    assert len(floor.shop.rows()) == 41


def test_a_table_materialized_alone_tells_when_the_publisher_was_asked_and_not_that_it_was(floor: Floor) -> None:
    floor.run()
    asked = floor.told(CSV)["publisher_asked"]
    floor.shop.publish(dataset_rows(41))
    alone = floor.run(TABLE)
    told = floor.told()
    assert (told["outcome"], told["publisher_asked"]) == ("unchanged", asked)
    when = f"{datetime.fromtimestamp(asked, timezone.utc):%Y-%m-%d %H:%M} UTC"
    found = verdicts(alone)
    assert found["verified"].description == f"compared with the published file as of {when}: unchanged"
    assert found["as_published"].description == f"made from the published datasets.csv as of {when}"
    floor.run(CSV, TABLE)
    assert floor.told()["publisher_asked"] == floor.told(CSV)["publisher_asked"] > asked


def test_a_table_without_a_fetched_file_says_what_to_materialize(floor: Floor) -> None:
    assert "materialize `datasets_csv` first" in reason(floor.run(TABLE, ok=False))


def test_a_table_whose_file_left_the_cache_says_what_to_materialize(floor: Floor) -> None:
    floor.run()
    for path in (Path(floor.shop.env["REFRESH_HOME"]) / "cache").iterdir():
        path.unlink()
    assert "is not in the cache of this host; materialize `datasets_csv` again" in reason(floor.run(TABLE, ok=False))


def test_a_wrong_row_count_blocks_the_table(floor: Floor) -> None:
    floor.run()
    floor.shop.publish(dataset_rows(41), promised=40)
    result = floor.run(ok=False)
    assert failed(result) == {"row_count"}
    assert verdicts(result, CSV)["row_count"].description == "staged 41 rows; the manifest says 40"
    assert len(floor.shop.rows()) == 40


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("# all of them\n", "line 42: 1 field where the header has 5 (column title is missing)"),
        ("   \n", "line 42: 1 field where the header has 5 (column title is missing)"),
        (",,,,,\n", "line 42: 6 fields where the header has 5"),
        (",,,,\n", "line 42: every field is empty"),
    ],
)
def test_a_wrong_row_count_names_the_row_that_is_none(floor: Floor, extra: str, told: str) -> None:
    floor.shop.publish_file("datasets.csv", csv_text(dataset_rows(40), HEADER) + extra, 40)
    result = floor.run(ok=False)
    assert verdicts(result, CSV)["row_count"].description == f"staged 41 rows; the manifest says 40; {told}"


def test_a_wrong_row_count_names_a_header_that_is_missing(floor: Floor) -> None:
    rows = csv_text(dataset_rows(40), HEADER).split("\n", 1)[1]
    floor.shop.publish_file("datasets.csv", rows, 40)
    told = verdicts(floor.run(ok=False), CSV)["row_count"].description or ""
    assert told.startswith("staged 39 rows; the manifest says 40; datasets.csv: header: missing columns: dataset_key, ")
    assert told.endswith("is the header missing?")


def test_another_refreshs_lock_is_a_success_with_a_warning(floor: Floor) -> None:
    floor.run()
    version = floor.version()
    floor.shop.publish(dataset_rows(41))
    with psycopg.connect(floor.shop.admin.info.dsn, password=floor.shop.env["PGPASSWORD"]) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl'))")
        result = floor.run()
    assert floor.told()["outcome"] == "locked"
    assert failed(result) == {"verified"}
    assert verdicts(result)["verified"].severity == dg.AssetCheckSeverity.WARN
    assert floor.version() == version
    assert len(floor.shop.rows()) == 40


def test_drift_is_repaired_and_told_as_an_error(floor: Floor) -> None:
    floor.run()
    floor.shop.admin.execute("UPDATE etl.datasets SET title = 'Odd' WHERE license = 'CC0 1.0'")
    result = floor.run()
    assert failed(result) == {"drift"}
    assert verdicts(result)["drift"].severity == dg.AssetCheckSeverity.ERROR
    assert "rows were changed behind the last load; they were loaded again" in verdicts(result)["drift"].description
    assert not floor.shop.rows("SELECT title FROM etl.datasets WHERE title = 'Odd'")
    assert failed(floor.run()) == set()


def test_the_launchpad_can_override_the_licences(floor: Floor) -> None:
    floor.run()
    floor.run(ops={"datasets_table": {"config": {"allowed": [" CC0 1.0 "]}}})
    assert len(floor.shop.rows()) == 10
    assert floor.told()["changed_parts"] == ["config"]


def test_the_launchpad_can_accept_a_shrink(floor: Floor) -> None:
    floor.run()
    floor.shop.publish(dataset_rows(4))
    assert "refused to load 4 rows over 40" in reason(floor.run(ok=False))
    floor.run(ops={"datasets_table": {"config": {"accept_shrink": True}}})
    assert len(floor.shop.rows()) == 4


def test_an_earlier_file_that_is_not_kept_is_refused_with_what_is(floor: Floor) -> None:
    floor.run()
    text = reason(floor.run(ops={"datasets_csv": {"config": {"sha256": "0" * 64}}}, ok=False))
    assert "is in the cache" in text
    assert str(floor.version(CSV)) in text


def test_one_bad_file_does_not_hold_up_the_others(floor: Floor) -> None:
    rights = dg.AssetKey("dataset_rights_csv"), dg.AssetKey("dataset_rights_table")
    floor.shop.publish_file("dataset_rights.csv", csv_text(rights_rows(5), RIGHTS_HEADER), 5)
    floor.shop.publish_file("datasets.csv", "not,the,header\n", 0)
    floor.run(assets.MANIFEST, CSV, TABLE, *rights, ok=False)
    assert floor.told(rights[1])["dagster/row_count"] == 5


def test_a_table_loaded_by_the_cron_job_passes_the_checks(floor: Floor) -> None:
    floor.run()
    floor.shop.admin.execute("DROP TABLE etl.refresh_loads")
    result = floor.run()
    assert floor.told()["outcome"] == "unchanged"
    assert failed(result) == set()


def test_the_password_is_in_no_event_even_where_the_error_echoes_it(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "Tr0ub4dor&3")
    monkeypatch.setenv("LEARN_BASE", "http://reader:s3cr3t-word@127.0.0.1:9/pub")
    result = floor.run(ok=False)
    events = "".join(str(record) for record in floor.instance.all_logs(result.run_id))
    assert "127.0.0.1:9" in events
    for secret in ("Tr0ub4dor&3", "s3cr3t-word"):
        assert secret not in events


def test_what_changed_is_shown_as_a_table(floor: Floor) -> None:
    floor.run()
    rows = dataset_rows(40, free=10)
    floor.shop.publish([(rows[0][0], "New | title", *rows[0][2:]), *rows[1:]])
    floor.run()
    text = floor.told()["what_changed"]
    assert "**1 changed**" in text
    assert "| title | Dataset 0 | New \\| title |" in text


def test_a_run_loads_the_file_that_it_fetched_itself_whatever_others_fetch_meanwhile(floor: Floor) -> None:
    manager = PublishedFileIOManager()
    files = {}
    for run_id, count in (("one", 40), ("two", 50)):
        floor.shop.publish(dataset_rows(count))
        settings = read_settings()
        files[run_id] = checked(publisher_of(settings).file("datasets.csv").file, "datasets.csv")
        manager.handle_output(dg.build_output_context(run_id=run_id, asset_key=CSV), files[run_id])
    for run_id, file in files.items():
        upstream = dg.build_output_context(run_id=run_id, asset_key=CSV)
        context = dg.build_input_context(upstream_output=upstream, asset_key=CSV, instance=floor.instance)
        assert manager.load_input(context) == file


def test_a_run_that_met_the_lock_does_not_make_the_table_fresh(floor: Floor) -> None:
    floor.run()
    floor.shop.publish(dataset_rows(41))
    with psycopg.connect(floor.shop.admin.info.dsn, password=floor.shop.env["PGPASSWORD"]) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('refresh:etl'))")
        floor.run()
    assert floor.is_stale()
    floor.run()
    assert not floor.is_stale()


def test_a_file_that_rotted_in_the_cache_is_removed_and_not_blamed_on_the_publisher(floor: Floor) -> None:
    floor.run()
    sha256 = str(floor.version(CSV))
    path = Path(floor.shop.env["REFRESH_HOME"]) / "cache" / sha256
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Dataset 1,", b'Datase" 1,', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    text = reason(floor.run(ok=False))
    assert "it was removed, run again to fetch it anew" in text
    floor.run()

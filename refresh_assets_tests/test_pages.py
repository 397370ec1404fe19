"""What a person sees in the browser after `refresh-assets up`: one process and one browser for all tests here.

With REFRESH_SCREENSHOTS=1 the pictures of the README are taken anew.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from refresh_assets_tests.browser import Browser, browsing

pytestmark = pytest.mark.slow

PORT = 24600
UP_SECONDS = 180
IMAGES = Path(__file__).parent.parent / "docs" / "images"
OURS = ("PG", "REFRESH_", "DAGSTER_", "LEARN_", "WINDOW_", "MAKE")
TABLE = "/assets/datasets_table"
EVENTS = f"{TABLE}?view=events"


@pytest.fixture(scope="module")
def ui(open_folder: Path) -> Iterator[str]:
    """Return the address of the UI of an `up` that has nothing but its home: the embedded server, the bundled files."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    process = subprocess.Popen(
        [sys.executable, "-m", "refresh_assets.cli", "up", "--port", str(PORT)],
        env={**env, "REFRESH_HOME": str(open_folder / "pages")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    too_late = threading.Timer(UP_SECONDS, process.terminate)
    too_late.start()
    printed = ""
    while "Ctrl-C stops all" not in printed and (line := process.stdout.readline()):
        printed += line
    too_late.cancel()
    address = re.search(r"^UI +(http://\S+)$", printed, re.MULTILINE)
    rest = threading.Thread(target=process.stdout.read)
    rest.start()
    try:
        assert address, printed
        yield address[1]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        rest.join(10)


@pytest.fixture(scope="module")
def page(ui: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(ui, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return where pictures go: into the documentation only when that is wished for."""
    return IMAGES if os.environ.get("REFRESH_SCREENSHOTS") == "1" else tmp_path


def test_the_graph_shows_every_asset_with_its_checks(page: Browser, images: Path) -> None:
    page.resize(1600, 800)
    names = ("publisher", "manifest", "datasets_csv", "datasets_table", "dataset_rights_csv", "dataset_rights_table")
    page.open("/asset-groups", "published", "windows", "Materialize all (6)")
    group = "/locations/refresh_assets/asset-groups/published/lineage"
    text = page.open(group, *names, "2 / 2 Passed", "6 / 6 Passed", "Materialize all (5)")
    assert text.count("2 / 2 Passed") == 2
    assert text.count("6 / 6 Passed") == 2
    page.photograph(images / "graph.png")


@pytest.mark.parametrize(
    ("upstream", "downstream"),
    [
        ("publisher", "manifest"),
        ("manifest", "datasets_csv"),
        ("datasets_csv", "datasets_table"),
        ("dataset_rights_csv", "dataset_rights_table"),
    ],
)
def test_lineage_goes_from_the_publisher_to_the_table(page: Browser, upstream: str, downstream: str) -> None:
    # Names stand twice where the page may have to shorten them.
    page.open(f"/assets/{downstream}", f"Upstream assets {upstream} {upstream} Downstream assets")


def test_the_table_says_what_the_last_refresh_did_to_it(page: Browser, images: Path) -> None:
    page.resize(1900, 1620)
    page.open(
        TABLE,
        "Latest check results 6 Row count 31",
        "dataset_key uuid non-nullable unique title text non-nullable publisher text non-nullable doi text license",
        "what_changed",
        "rows_by_value",
        "At 04:17 AM UTC, only on Monday",
    )
    page.photograph(images / "table.png")


def test_the_first_load_tells_its_outcome_its_counts_and_what_changed(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open(
        EVENTS,
        "outcome loaded message first load: loaded 31 rows added 31 changed 0 removed 0",
        "31 added, 5 of them: dataset_key title publisher doi license",
        "license rows in the table unspecified 394 left out CC0 1.0 28 kept",
        "dagster/row_count 31 rows_staged 440",
        "dagster/table_name etl.datasets",
    )
    page.click("[Show Markdown]")
    page.wait_for("Texas A&M University Biodiversity Research")


def test_every_check_passed_and_says_what_it_found(page: Browser, images: Path) -> None:
    page.resize(1600, 800)
    names = ("drift", "key_unique", "row_count", "rows_accounted_for", "verified", "versions")
    page.open(f"{TABLE}?view=checks", "Checks (6)", *(f"{name} {name} Succeeded" for name in names))
    page.click("rows_accounted_for")
    page.wait_for("440 published = 31 kept + 409 left out by the filter", "Passed")
    page.photograph(images / "checks.png")


def test_the_run_of_the_first_refresh_is_there_as_any_other(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open("/locations/refresh_assets/jobs/weekly_refresh/runs", "command line", "weekly_refresh", "Success")
    page.follow("/runs/")
    page.wait_for("5 assets", "16 checks", "Succeeded (5)", "datasets: first load: loaded 31 rows", "RUN_SUCCESS")


def test_the_schedule_is_on_for_monday_morning(page: Browser) -> None:
    page.open(
        "/locations/refresh_assets/schedules/weekly_refresh_schedule",
        "At 04:17 AM UTC, only on Monday (17 4 * * 1)",
        "Execution timezone UTC",
    )
    assert page.is_on("Running")


def test_every_window_of_the_sample_is_there_with_its_checks_and_lineage(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open("/assets/activity_metrics?view=partitions", "Failed (0)", "Missing (0)", "Partitions Selected")
    names = ("counts_agree", "late_events", "no_gap", "rows_unique", "suppression")
    page.open("/assets/activity_metrics?view=checks", "Checks (5)", *(f"{name} {name} Succeeded" for name in names))
    page.open("/assets/activity_metrics?view=lineage", "event_log", "5 / 5 Passed", "100% filled")
    page.open(
        "/assets/activity_metrics?view=events",
        "outcome loaded window 20",
        "dagster/table_name etl.activity_metrics source generated sample (no real events)",
    )


def test_the_schedule_of_the_windows_is_on(page: Browser) -> None:
    page.open(
        "/locations/refresh_assets/schedules/activity_metrics_schedule",
        "At 04:15 AM UTC, Monday through Friday (15 4 * * 1-5)",
        "Execution timezone UTC",
    )
    assert page.is_on("Running")


def test_the_launchpad_documents_the_options_of_a_table(page: Browser) -> None:
    page.open("/locations/refresh_assets/jobs/weekly_refresh/playground", "accept_shrink", "No errors")
    page.click("accept_shrink: false")
    page.wait_for(
        "/* Load although far fewer rows, or none, would be left. Otherwise such a load is refused. */ accept_shrink?",
        "/* Keep the rows whose filter column has one of these values (licences, for datasets),",
    )


def test_a_table_materialized_by_hand_is_verified_and_unchanged(page: Browser) -> None:
    page.open(TABLE, "Materialize", "Row count")
    page.click("Materialize")
    page.wait_for("Launched run")
    page.reopen_until(
        EVENTS,
        "outcome unchanged message nothing changed: skipped added 0 changed 0 removed 0",
        "dagster/row_count 31",
    )

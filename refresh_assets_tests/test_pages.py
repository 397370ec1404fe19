"""What a person sees in the browser: one `up`, one publisher and one browser for all tests here, in their order.

First all is well and a second edition was published; then somebody writes the table, a bad file is published, and
tables grow old. With REFRESH_SCREENSHOTS=1 the pictures of the documents are taken anew from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from refresh_assets_tests.browser import Browser, browsing
from refresh_assets_tests.documents import DOCS, bare, tables
from refresh_assets_tests.tour import Tour, touring

pytestmark = pytest.mark.slow

TABLE = "/assets/datasets_table"
EVENTS = f"{TABLE}?view=events"
CHECKS = f"{TABLE}?view=checks"
JOB = "/locations/refresh_assets/jobs/weekly_refresh"
NAMES = ("as_published", "drift", "key_unique", "row_count", "rows_accounted_for", "verified", "versions")
QUESTIONS = next(table for table in tables((DOCS / "ui.md").read_text(encoding="utf-8")) if "question" in table[0])


@pytest.fixture(scope="module")
def tour(open_folder: Path) -> Iterator[Tour]:
    """Return a tour on which a second edition of datasets.csv was published and loaded."""
    with touring(open_folder) as tour:
        tour.publish_an_edition()
        assert "datasets: input changed: loaded 31 rows" in tour.refresh()
        yield tour


@pytest.fixture(scope="module")
def page(tour: Tour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tour.address, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return where pictures go: into the documentation only when that is wished for."""
    return DOCS / "images" if os.environ.get("REFRESH_SCREENSHOTS") == "1" else tmp_path


def test_the_graph_shows_every_asset_with_its_checks(page: Browser, images: Path) -> None:
    page.resize(1600, 800)
    names = ("publisher", "manifest", "datasets_csv", "datasets_table", "dataset_rights_csv", "dataset_rights_table")
    page.open("/asset-groups", "published", "windows", "Materialize all (6)")
    group = "/locations/refresh_assets/asset-groups/published/lineage"
    text = page.open(group, *names, *2 * ("2 / 2 Passed", "7 / 7 Passed"), "Materialize all (5)")
    assert text.count("2 / 2 Passed") == 2
    assert text.count("7 / 7 Passed") == 2
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


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["question"])
def test_a_stranger_finds_the_answer_by_the_click_path_of_the_document(page: Browser, row: dict[str, str]) -> None:
    page.open("/", "Catalog")
    for step in row["click"].split(" → "):
        page.click(bare(step))
    page.wait_for(*(bare(part) for part in row["you see"].split(", ")))


def test_the_table_says_what_it_is_and_what_the_last_refresh_did_to_it(page: Browser, images: Path) -> None:
    page.resize(1900, 1800)
    page.open(
        TABLE,
        "Latest check results 7 Freshness policy Passing Row count 31",
        "Kept equal to the published datasets.csv, of which those rows are kept whose license is one of the setting",
        "dataset_key uuid non-nullable unique The registry's key of the dataset. ← datasets.csv: dataset_key",
        "doi text Digital object identifier, where it has one. ← datasets.csv: doi",
        "Owners data Kinds Postgres Table",
        "Source code Open defs.yaml",
        "assets.py in editor",
        "At 04:17 AM UTC, only on Monday",
        "Fails if more than 8 days since last materialization",
        "what_changed",
    )
    page.photograph(images / "table.png")


def test_a_load_tells_its_outcome_its_counts_and_which_rows_it_changed(page: Browser, images: Path) -> None:
    page.resize(1600, 1500)
    page.open(
        EVENTS,
        "outcome loaded message input changed: loaded 31 rows added 1 changed 3 removed 1",
        "3 changed",
        "dataset_key column old new",
        "Bernice P. Bishop Museum Bernice P. Bishop Museum (second edition)",
        "1 added dataset_key title publisher doi license",
        "Tide pool survey",
        "license rows in the table unspecified 394 left out CC0 1.0 27 kept",
        "preview dataset_key title publisher doi license",
        "dagster/row_count 31 rows_staged 440",
        "column of datasets.csv how dataset_key dataset_key as it is",
        "seconds_stage",
        "rows_per_second",
    )
    page.photograph(images / "changed.png")


def test_numbers_are_plotted_over_time(page: Browser, images: Path) -> None:
    page.resize(1600, 1100)
    page.open(TABLE, "Row count 31", "Plots")
    page.click("Plots")
    page.wait_for(
        "added", "changed", "dagster/row_count", "published_bytes", "removed", "rows_per_second", "seconds_apply"
    )
    page.show("Metadata")
    page.photograph(images / "plots.png")


def test_the_file_says_where_it_came_from_and_how_large_it_is(page: Browser) -> None:
    page.resize(1600, 1500)
    page.open("/assets/datasets_csv", "Row count 440 Storage 61KB", "defs.yaml in editor")
    page.open("/assets/datasets_csv?view=events", "source downloaded", "dagster/row_count 440 rows_in_manifest 440")


def test_every_check_passed_and_says_what_it_found(page: Browser, images: Path) -> None:
    page.resize(1600, 800)
    page.open(CHECKS, "Checks (7)", *(f"{name} {name} Succeeded" for name in NAMES))
    page.click("rows_accounted_for")
    page.wait_for("440 published = 31 kept + 409 left out by the filter", "Passed", "If it fails:")
    page.photograph(images / "checks.png")


def test_the_runs_of_the_command_line_are_there_as_any_other(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open(f"{JOB}/runs", "refresh/started_by: command line", "weekly_refresh", "Success")
    page.follow("/runs/")
    page.wait_for("5 assets", "18 checks", "Succeeded (5)", "datasets: input changed: loaded 31 rows", "RUN_SUCCESS")


def test_the_job_and_its_schedule_say_what_they_do(page: Browser) -> None:
    page.open(JOB, "makes each table equal to its file", "One bad file does not hold up the other tables")
    page.open(
        "/locations/refresh_assets/schedules/weekly_refresh_schedule",
        "Refreshes every published table, Mondays at 04:17, time zone UTC (setting REFRESH_TIMEZONE)",
        "At 04:17 AM UTC, only on Monday (17 4 * * 1)",
    )
    assert page.is_on("Running")


def test_every_window_of_the_sample_is_there_with_its_checks_and_lineage(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open(
        "/assets/activity_metrics?view=overview",
        "Freshness policy Passing",
        "If it is red: a failed check says what it found.",
        "Owners data Kinds Postgres Table",
        "assets.py in editor",
        "Fails if more than 3 days",
    )
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


def test_the_launchpad_documents_the_options_of_a_table_and_of_its_file(page: Browser, images: Path) -> None:
    page.resize(1600, 900)
    page.open(f"{JOB}/playground", "accept_shrink", "No errors")
    page.click("published: false")
    page.wait_for(
        "/* Load this earlier file of the cache, named by its sha256", "It stays until another file is published"
    )
    page.click("accept_shrink: false")
    page.wait_for(
        "/* Load although far fewer rows, or none, would be left. Otherwise such a load is refused. */ accept_shrink?",
        "/* Keep the rows whose filter column has one of these values (licences, for datasets),",
    )
    page.photograph(images / "launchpad.png")


def test_a_table_materialized_by_hand_is_unchanged_and_still_says_what_changed_last(page: Browser) -> None:
    page.resize(1600, 1400)
    page.open(TABLE, "Materialize", "Row count")
    page.click("Materialize")
    page.wait_for("Launched run")
    page.reopen_until(
        EVENTS,
        "outcome unchanged message nothing changed: skipped added 0 changed 0 removed 0",
        "nothing this time; load 3 of",
        "Tide pool survey",
        "dagster/row_count 31",
    )


def test_rows_written_behind_the_refresh_turn_a_check_red(tour: Tour, page: Browser, images: Path) -> None:
    tour.sql("UPDATE etl.datasets SET title = 'Odd' WHERE license = 'CC BY 4.0'")
    assert "datasets: table changed behind the last load: loaded 31 rows" in tour.refresh()
    page.resize(1600, 800)
    page.open(CHECKS, "Checks (7)", "drift drift Failed")
    page.click("drift")
    page.wait_for(
        "etl.datasets: rows were changed behind the last load; they were loaded again: 0 added, 4 changed, 0 removed",
        "find out who wrote the table, and take the right away",
    )
    page.photograph(images / "failed_check.png")


def test_a_failed_run_says_which_line_of_the_file_is_wrong(tour: Tour, page: Browser, images: Path) -> None:
    tour.publish_a_bad_row()
    assert "datasets: failed: datasets.csv: line 5: column dataset_key: 'not-a-key' is no uuid" in tour.refresh()
    page.resize(1600, 900)
    page.open("/runs", "Failure")
    page.follow("/runs/")
    page.wait_for("Errored (1)", "RUN_FAILURE")
    page.fill("Filter…", "failed:")
    page.wait_for(
        "datasets: failed: datasets.csv: line 5: column dataset_key: 'not-a-key' is no uuid",
        "the publisher must mend the file",
    )
    page.photograph(images / "failed_run.png")


def test_a_table_that_nobody_verifies_turns_yellow_and_then_red(tour: Tour, page: Browser, images: Path) -> None:
    tour.publish_the_good_one_again()
    assert "ERROR" not in tour.refresh()
    page.resize(1600, 1000)
    tour.backdate("dataset_rights_table", 7.5)
    tour.backdate("datasets_table", 8.5)
    page.reopen_until("/assets/dataset_rights_table", "Freshness policy Warning")
    page.reopen_until(TABLE, "Freshness policy Failed")
    page.photograph(images / "overdue.png")
    tour.refresh()
    page.reopen_until(TABLE, "Freshness policy Passing")

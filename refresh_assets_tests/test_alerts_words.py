"""The words of a mail: the tables by their names, what they hold in truth, and what to do about it."""

from __future__ import annotations

import uuid

import dagster as dg
import pytest

from refresh_assets_tests.shop import dataset_rows
from refresh_assets_tests.watchtower import Watchtower, job_origin

pytestmark = pytest.mark.slow

BY_HAND = "__ASSET_JOB"


# By which name


@pytest.mark.parametrize(
    ("tables", "name"), [(("datasets",), "datasets"), (("datasets", "dataset_rights"), "dataset_rights and datasets")]
)
def test_a_materialization_by_hand_is_told_by_its_tables(tower: Watchtower, tables: tuple[str, ...], name: str) -> None:
    run = tower.create_run(job=BY_HAND, tables=tables)
    tower.fail(run, "the process exited")
    (caught,) = tower.told()
    assert caught.mail["Subject"] == f"[refresh] {name} failed: the process exited"
    assert f"Run {run.run_id[:8]}, started by hand." in caught.text()
    assert BY_HAND not in caught.text()


def test_a_materialization_by_hand_that_is_stuck_is_told_by_its_table(tower: Watchtower) -> None:
    for table in ("datasets", "dataset_rights"):
        tower.create_run(job=BY_HAND, tables=[table], status=dg.DagsterRunStatus.QUEUED)
    tower.shop.admin.execute("UPDATE dagster.runs SET update_timestamp = update_timestamp - interval '10 minutes'")
    assert sorted(subject.split(":")[0] for subject in tower.subjects()) == [
        "[refresh] dataset_rights is stuck",
        "[refresh] datasets is stuck",
    ]


def test_another_teams_assets_are_told_by_their_keys(tower: Watchtower) -> None:
    keys = {dg.AssetKey(["sales", f"orders_{number}"]) for number in range(5)}
    run = dg.DagsterRun(BY_HAND, str(uuid.uuid4()), asset_selection=frozenset(keys), remote_job_origin=None)
    tower.instance.add_run(run)
    tower.fail(run, "no rows")
    assert tower.subjects() == ["[refresh] sales/orders_0, sales/orders_1 and 3 more failed: no rows"]


def test_a_job_of_the_same_name_in_another_code_location_is_not_taken_for_ours(tower: Watchtower) -> None:
    run = dg.DagsterRun("weekly_refresh", str(uuid.uuid4()), remote_job_origin=job_origin("theirs", "weekly_refresh"))
    tower.instance.add_run(run)
    tower.fail(run, "their own affair")
    (caught,) = tower.told_from("refresh_assets")
    assert caught.mail["Subject"] == "[refresh] weekly_refresh failed: their own affair"
    assert "datasets" not in caught.text()


# What the table holds


def test_a_load_of_the_failed_run_itself_is_not_said_to_be_an_earlier_one(tower: Watchtower) -> None:
    run = tower.instance.get_run_by_id(tower.refresh())
    assert run is not None
    tower.fail(run, "the checks could not be stored")
    (caught,) = tower.told()
    assert "State:        holds the load of" in caught.text()


def test_the_mail_on_drift_says_that_it_is_repaired_and_what_to_do(tower: Watchtower) -> None:
    tower.refresh()
    tower.shop.admin.execute("UPDATE etl.datasets SET title = 'Odd' WHERE title = 'Dataset 1'")
    tower.refresh()
    (caught,) = tower.told()
    assert str(caught.mail["Subject"]) == (
        "[refresh] datasets failed a check: drift: etl.datasets: rows were changed behind the last load; "
        "they were loaded again: 0 added, 1 changed, 0 removed"
    )
    body = caught.text()
    assert (
        "Somebody had changed the rows behind the last load; this run found that and loaded what is published" in body
    )
    assert "What to do:   Nothing has to be loaded" in body
    assert "State:        holds the load of" in body


def test_the_mail_on_a_version_that_was_not_raised_says_where_to_raise_it(tower: Watchtower) -> None:
    tower.refresh()
    tower.shop.admin.execute("UPDATE etl.refresh_loads SET transform_fingerprint = 'another'")
    tower.refresh()
    (caught,) = tower.told()
    assert "datasets failed a check: versions: table datasets: transform_version was not raised" in str(
        caught.mail["Subject"]
    )
    assert "Raise the version number in the table's defs.yaml" in caught.text()


def test_a_check_of_another_team_points_at_its_page(tower: Watchtower) -> None:
    @dg.asset(check_specs=[dg.AssetCheckSpec("not_empty", asset="orders")])
    # Dagster does not take the class with its argument where there are checks.
    def orders() -> dg.MaterializeResult:  # type: ignore[type-arg]
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False, check_name="not_empty")])

    dg.materialize([orders], instance=tower.instance)
    (caught,) = tower.told()
    assert caught.mail["Subject"] == "[refresh] orders failed a check: not_empty: failed"
    assert "Open the checks on the page of the asset" in caught.text()


def test_the_recovery_of_several_tables_names_them(tower: Watchtower) -> None:
    tower.refresh("datasets", "dataset_rights")
    for table in ("datasets", "dataset_rights"):
        tower.fail(tower.create_run(tables=[table]))
    tower.look()
    tower.shop.publish(dataset_rows(39))
    tower.refresh("datasets", "dataset_rights")
    assert tower.subjects() == ["[refresh] dataset_rights and datasets recovered"]

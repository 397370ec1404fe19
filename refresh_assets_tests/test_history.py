"""`refresh-assets history`, `diff` and `reload`: they agree with refresh_loads, the asset events and the files."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from click.testing import CliRunner

from refresh_assets.cli import main
from refresh_assets.recorded import storage
from refresh_assets.settings import read_home
from refresh_assets_tests.published_fixtures import csv_text
from refresh_assets_tests.shop import RIGHTS_HEADER, Shop, dataset_rows, rights_rows

pytestmark = pytest.mark.slow
A = dataset_rows(40, free=10)
B = [(A[0][0], "A corrected title", *A[0][2:]), *A[2:], *dataset_rows(41)[40:]]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Leave this process as it was: the command handles SIGTERM its own way."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(*args: str) -> tuple[int, str]:
    """Run a command in this process; return its exit status and what it prints."""
    result = CliRunner().invoke(main, args)
    return result.exit_code, result.output


def json_lines(*args: str) -> list[dict[str, Any]]:
    code, out = run(*args, "--json")
    assert code == 0, out
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def refresh() -> dict[str, Any]:
    return json_lines("run", "--table", "datasets")[0]


@pytest.fixture
def loads(shop_here: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Return a shop whose loads are: 1 dataset_rights, 2 datasets of A, 3 datasets of B; or 1 and 2 the other way."""
    monkeypatch.setenv("DAGSTER_HOME", "")
    shop_here.publish_file("dataset_rights.csv", csv_text(rights_rows(7), RIGHTS_HEADER), 7)
    shop_here.publish(A)
    assert run("run")[0] == 0
    shop_here.publish(B)
    assert refresh()["outcome"] == "loaded"
    return shop_here


def ids(shop: Shop) -> list[int]:
    return [row[0] for row in shop.rows("SELECT load_id FROM etl.refresh_loads WHERE job = 'datasets.csv' ORDER BY 1")]


def test_the_history_agrees_with_refresh_loads_and_with_the_asset_events(loads: Shop) -> None:
    refresh()
    told = json_lines("history")
    columns = "load_id, rows_staged, rows_kept, added, changed, removed, job_key, run_id"
    recorded = loads.rows(f"SELECT {columns} FROM etl.refresh_loads ORDER BY load_id DESC")
    names = ("load_id", "rows_staged", "rows", "added", "changed", "removed", "job_key", "run_id")
    assert [tuple(load[name] for name in names) for load in told] == recorded
    events = []
    with storage(read_home()) as instance:
        for table in ("datasets", "dataset_rights"):
            found = instance.fetch_materializations(dg.AssetKey(f"{table}_table"), limit=50).records
            events += [record.asset_materialization.metadata for record in found if record.asset_materialization]
    loaded = [event for event in events if event["outcome"].value == "loaded"]
    event_names = ("load_id", "rows_staged", "dagster/row_count", "added", "changed", "removed", "job_key", "loaded_by")
    assert sorted((tuple(event[name].value for name in event_names) for event in loaded), reverse=True) == recorded
    assert len(events) == len(loaded) + 1
    code, out = run("history", "datasets", "--limit", "1")
    assert code == 0
    assert f"{ids(loads)[-1]:>6}  " in out
    assert "UTC  datasets: 40 rows, +1 ~1 -1, " in out
    assert out.rstrip().endswith("input changed")


def test_the_difference_of_two_loads_is_listed(loads: Shop) -> None:
    old, new = ids(loads)
    code, out = run("diff", str(old), str(new))
    assert code == 0, out
    lines = out.splitlines()
    assert lines[0].endswith(": 1 added, 1 changed, 1 removed")
    assert sorted(lines[1:]) == sorted(
        [
            f"added    {B[-1][0]}  title: Dataset 40; publisher: Museum; doi: NULL; license: CC BY 4.0",
            f"changed  {A[0][0]}  title: Dataset 0 -> A corrected title",
            f"removed  {A[1][0]}  title: Dataset 1; publisher: Museum; doi: NULL; license: CC0 1.0",
        ]
    )
    counts, *rows = json_lines("diff", str(new), str(old), "--limit", "1")
    assert (counts["added"], counts["changed"], counts["removed"], len(rows)) == (1, 1, 1, 1)
    rights = loads.rows("SELECT load_id FROM etl.refresh_loads WHERE job = 'dataset_rights.csv'")[0][0]
    for other, text in ((rights, "one of dataset_rights.csv"), (999, "there is no load 999")):
        code, out = run("diff", str(other), str(new))
        assert (code, text in out) == (1, True), out


def test_an_earlier_load_is_reloaded_and_stays_until_it_is_ended(loads: Shop) -> None:
    old, _ = ids(loads)
    code, out, err = loads.run("reload", "datasets", str(old), "--json")
    report = json.loads(out)
    assert (code, report["outcome"], report["rows"]) == (0, "loaded", 40)
    assert "check failed: datasets_table: as_published" in err
    assert refresh()["outcome"] == "unchanged"
    assert loads.rows("SELECT count(*) FROM etl.datasets WHERE title = 'A corrected title'") == [(0,)]
    assert [load["instead_of"] for load in json_lines("history", "datasets")] == [
        loads.manifest["datasets.csv"]["sha256"],
        None,
        None,
    ]
    code, out = run("reload", "datasets", "published")
    assert code == 0
    assert "input changed: loaded 40 rows" in out
    assert loads.rows("SELECT count(*) FROM etl.datasets WHERE title = 'A corrected title'") == [(1,)]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("history", "books"), "no such table: books; declared are dataset_rights, datasets"),
        (("history",), "no load of any table yet"),
        (("diff", "1", "2"), "there is no load 1; `refresh-assets history` lists them"),
        (("reload", "datasets", "1"), "there is no load 1"),
        (("reload", "books", "1"), "no such table: books"),
        (("reload", "datasets", "last"), "'last' is not the number of a load, nor 'published'"),
    ],
)
def test_what_cannot_be_found_is_told_in_a_line(shop_here: Shop, args: tuple[str, ...], text: str) -> None:
    code, out = run(*args)
    assert text in out
    assert code == (0 if args == ("history",) else 1)
    assert "Traceback" not in out


def test_a_table_that_was_never_loaded_hides_no_load_of_another(
    shop_here: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    shop_here.publish(A)
    assert refresh()["outcome"] == "loaded"
    assert [load["table"] for load in json_lines("history")] == ["datasets"]
    assert run("history", "dataset_rights")[0] == 0

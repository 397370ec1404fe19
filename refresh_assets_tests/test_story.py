"""What a table's materialization tells in the UI, run by Dagster as it runs there."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from refresh_assets.published.story import LASTING
from refresh_assets_tests.floor import CSV, TABLE, Floor
from refresh_assets_tests.shop import dataset_rows

pytestmark = pytest.mark.slow

NUMBERS = {
    "added", "changed", "removed", "dagster/row_count", "rows_staged", "published_bytes", "load_id",
    "seconds_fetch", "seconds_stage", "seconds_compare", "seconds_apply", "seconds", "rows_per_second",
    "bytes_per_second",
}  # fmt: skip


def entries(floor: Floor, key: dg.AssetKey = TABLE) -> Any:
    event = floor.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization.metadata


def publish_a_change(floor: Floor) -> None:
    rows = dataset_rows(41, free=10)
    floor.shop.publish([(rows[0][0], "Tides", *rows[0][2:]), *rows[2:]])


def test_every_number_of_a_load_is_there_to_be_plotted(floor: Floor) -> None:
    floor.run()
    publish_a_change(floor)
    floor.run()
    told = entries(floor)
    plotted = {name for name, value in told.items() if isinstance(value, (dg.IntMetadataValue, dg.FloatMetadataValue))}
    assert plotted == NUMBERS
    assert (told["added"].value, told["changed"].value, told["removed"].value) == (1, 1, 1)
    assert told["published_bytes"].value == (floor.shop.folder / "learn/data/datasets.csv").stat().st_size


def test_the_catalogues_own_fields_are_set(floor: Floor) -> None:
    floor.run()
    table, file, env = entries(floor), entries(floor, CSV), floor.shop.env
    assert table["dagster/row_count"].value == 40
    assert table["dagster/table_name"].value == f"{env['PGDATABASE']}.etl.datasets"
    assert table["dagster/uri"].value == f"postgresql://{env['PGHOST']}:{env['PGPORT']}/{env['PGDATABASE']}"
    loaded_at = floor.shop.rows("SELECT extract(epoch FROM loaded_at)::float8 FROM etl.refresh_loads")[0][0]
    assert table["dagster/last_updated_timestamp"].value == pytest.approx(loaded_at, abs=0.01)
    assert file["dagster/size_bytes"].value == table["published_bytes"].value
    assert file["dagster/uri"].value.endswith("/learn/data/datasets.csv")
    assert isinstance(file["dagster/last_updated_timestamp"], dg.TimestampMetadataValue)


def test_the_last_update_is_that_of_the_load_however_often_the_table_is_verified(floor: Floor) -> None:
    floor.run()
    loaded = entries(floor)["dagster/last_updated_timestamp"]
    floor.run()
    assert entries(floor)["outcome"].value == "unchanged"
    assert entries(floor)["dagster/last_updated_timestamp"] == loaded


def test_column_lineage_goes_from_the_files_columns_to_the_tables(floor: Floor) -> None:
    floor.run()
    deps = entries(floor)["dagster/column_lineage"].value.deps_by_column
    assert deps["doi"] == [dg.TableColumnDep(asset_key=CSV, column_name="doi")]
    assert set(deps) == {"dataset_key", "title", "publisher", "doi", "license"}
    assert "| doi | doi | as it is |" in entries(floor)["made_from"].value


def test_a_run_that_finds_nothing_to_do_goes_on_telling_what_changed_last(floor: Floor) -> None:
    floor.run()
    publish_a_change(floor)
    floor.run()
    load = entries(floor)
    for _ in range(2):
        floor.run()
        told = entries(floor)
        assert told["outcome"].value == "unchanged"
        first, _, rest = told["what_changed"].value.partition("\n\n")
        assert first.startswith("nothing this time; load 2 of ")
        assert first.endswith("UTC: 1 added, 1 changed, 1 removed")
        assert rest == load["what_changed"].value
        assert told["rows_by_value"] == load["rows_by_value"]
        assert told["loaded_by"].value == load["loaded_by"].value


def test_what_another_job_loaded_since_is_not_told_as_ours(floor: Floor) -> None:
    floor.run()
    floor.shop.admin.execute("DROP TABLE etl.refresh_loads")
    floor.run()
    assert entries(floor)["what_changed"].value == "nothing this time"
    assert {name for name in LASTING if name in entries(floor)} == {"what_changed"}


def test_samples_are_bounded_whatever_the_size_of_the_table(floor: Floor) -> None:
    floor.shop.publish([(*row[:1], "long title " * 500, *row[2:]) for row in dataset_rows(2000)])
    floor.run()
    texts = {name: len(value.value) for name, value in entries(floor).items() if isinstance(value.value, str)}
    assert max(texts.values()) < 3000, texts
    assert "**2,000 added**, 1 of them:" in entries(floor)["what_changed"].value or texts["what_changed"] < 1000


def test_the_preview_shows_rows_by_their_key_and_only_those_that_are_kept(floor: Floor) -> None:
    rows = dataset_rows(30, free=3)
    floor.shop.publish([(*row[:4], "secret") if row[4] != "CC0 1.0" else row for row in rows])
    floor.run()
    lines = entries(floor)["preview"].value.splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]] == sorted(row[0] for row in rows[:3])
    assert "secret" not in lines[2]
    assert "| secret | 27 | left out |" in entries(floor)["rows_by_value"].value


def test_a_failure_stands_in_one_line_of_the_log(floor: Floor, capfd: pytest.CaptureFixture[str]) -> None:
    floor.shop.publish([("no uuid", *row[1:]) for row in dataset_rows(1)])
    floor.run(ok=False)
    lines = [line for line in capfd.readouterr().err.splitlines() if "datasets: failed: " in line]
    assert len(lines) == 1
    assert "line 2: column dataset_key: 'no uuid'" in lines[0]

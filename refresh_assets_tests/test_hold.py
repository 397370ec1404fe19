"""An earlier file loaded again by wish: it stays until the next publication differs, and is recorded as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from refresh_assets.errors import RefreshError
from refresh_assets.published.choice import Wish
from refresh_assets_tests.floor import CSV, TABLE, Floor, failed, reason, verdicts
from refresh_assets_tests.shop import dataset_rows

pytestmark = pytest.mark.slow


def reload(floor: Floor, sha256: str | None, **options: Any) -> dg.ExecuteInProcessResult:
    config = {"sha256": sha256} if sha256 else {"published": True}
    return floor.run(CSV, TABLE, ops={"datasets_csv": {"config": config}}, **options)


@pytest.fixture
def first(floor: Floor) -> str:
    """Return the sha256 of an earlier publication of 40 rows; one of 50 rows is published and loaded after it."""
    floor.run()
    earlier = str(floor.version(CSV))
    floor.shop.publish(dataset_rows(50))
    floor.run()
    return earlier


def wishes(floor: Floor) -> list[Any]:
    return [row[0] for row in floor.shop.rows("SELECT instead_of FROM etl.refresh_loads ORDER BY load_id")]


def test_it_stays_while_the_same_file_is_published(floor: Floor, first: str) -> None:
    reload(floor, first)
    floor.run()
    assert len(floor.shop.rows()) == 40
    assert (floor.told()["outcome"], floor.told()["sha256"]) == ("unchanged", first)


def test_the_next_publication_that_differs_is_loaded(floor: Floor, first: str) -> None:
    reload(floor, first)
    floor.shop.publish(dataset_rows(60))
    floor.run()
    assert len(floor.shop.rows()) == 60
    assert failed(floor.run()) == set()


def test_it_is_recorded_with_the_file_in_whose_place_it_was_loaded(floor: Floor, first: str) -> None:
    published = floor.version(CSV)
    reload(floor, first)
    assert wishes(floor) == [None, None, published]
    assert floor.told()["message"] == "earlier file by wish: loaded 40 rows"
    assert str(published)[:12] in floor.told()["earlier_file"]
    assert floor.told(CSV)["source"] == "an earlier file of the cache, by wish"


def test_a_check_warns_as_long_as_it_stays(floor: Floor, first: str) -> None:
    assert failed(reload(floor, first)) == {"as_published"}
    verdict = verdicts(floor.run())["as_published"]
    assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert verdict.description == "made from an earlier datasets.csv by wish; it stays until another file is published"


def test_it_can_be_ended_at_once(floor: Floor, first: str) -> None:
    reload(floor, first)
    assert failed(reload(floor, None)) == set()
    assert len(floor.shop.rows()) == 50
    assert wishes(floor)[-1] is None


def test_the_published_file_itself_by_wish_is_no_earlier_one(floor: Floor, first: str) -> None:
    published = str(floor.version(CSV))
    reload(floor, first)
    assert failed(reload(floor, published)) == set()
    assert wishes(floor)[-1] is None


def test_a_second_wish_stays_for_as_long_as_the_first_would_have(floor: Floor, first: str) -> None:
    floor.shop.publish(dataset_rows(45))
    floor.run()
    published = floor.version(CSV)
    for sha256 in (floor.shop.rows("SELECT parts ->> 'input' FROM etl.refresh_loads WHERE load_id = 2")[0][0], first):
        reload(floor, sha256)
    assert wishes(floor)[-2:] == [published, published]
    floor.run()
    assert len(floor.shop.rows()) == 40


def test_rows_changed_behind_it_are_repaired_from_the_earlier_file(floor: Floor, first: str) -> None:
    reload(floor, first)
    floor.shop.admin.execute("DELETE FROM etl.datasets WHERE title = 'Dataset 1'")
    assert failed(floor.run()) == {"drift", "as_published"}
    assert len(floor.shop.rows()) == 40


def test_one_that_left_the_cache_is_never_replaced_in_silence(floor: Floor, first: str) -> None:
    reload(floor, first)
    (Path(floor.shop.env["REFRESH_HOME"]) / "cache" / first).unlink()
    text = reason(floor.run(ok=False))
    assert "was made from that earlier file by wish" in text
    assert "`refresh-assets reload TABLE published` loads the published one" in text
    assert len(floor.shop.rows()) == 40


def test_it_needs_no_publisher(floor: Floor, first: str) -> None:
    (floor.shop.folder / "learn" / "data" / "manifest.json").unlink()
    reload(floor, first)
    assert len(floor.shop.rows()) == 40


def test_a_table_materialized_alone_remembers_that_its_file_is_an_earlier_one(floor: Floor, first: str) -> None:
    reload(floor, first)
    assert failed(floor.run(TABLE)) == {"as_published"}


def test_a_history_of_an_earlier_version_gets_the_column_with_its_next_load(floor: Floor, first: str) -> None:
    floor.shop.admin.execute("ALTER TABLE etl.refresh_loads DROP COLUMN instead_of")
    assert failed(floor.run()) == set()
    floor.shop.publish(dataset_rows(60))
    floor.run()
    assert wishes(floor) == [None, None, None]


def test_two_wishes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(RefreshError, match="contradict"):
        Wish("0" * 64, published=True)

"""Lineage for an OpenLineage endpoint: off by default, by the library where an address is set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refresh_assets.published.openlineage import lineage_to_elsewhere
from refresh_assets.settings import SettingsError
from refresh_assets_tests.openlineage_receiver import receiving
from refresh_assets_tests.shop import Shop, dataset_rows

# Where `make` puts the extra: Dagster would import it in every process of this environment.
LIBRARY = Path(sys.prefix) / "openlineage"
LOOK = """
import dagster as dg
from refresh_assets.definitions import build_defs
from refresh_assets.recorded import storage
from refresh_assets.settings import read_home

sensor = build_defs().get_repository_def().get_sensor_def("openlineage")
assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
with storage(read_home()) as instance:
    context = dg.build_sensor_context(instance)
    sensor.evaluate_tick(context)
"""


def test_nothing_is_sent_where_no_address_is_set() -> None:
    assert not lineage_to_elsewhere({}).sensors
    assert not lineage_to_elsewhere({"OPENLINEAGE_URL": " "}).sensors


def test_an_address_without_the_library_says_what_to_install() -> None:
    with pytest.raises(SettingsError, match=r"OPENLINEAGE_URL .* pip install 'refresh-assets\[openlineage\]'"):
        lineage_to_elsewhere({"OPENLINEAGE_URL": "http://127.0.0.1:9"})


@pytest.mark.slow
def test_a_refresh_arrives_with_its_columns_their_lineage_and_its_checks(shop: Shop) -> None:
    shop.publish(dataset_rows(40))
    assert shop.refresh()["outcome"] == "loaded"
    with receiving() as receiver:
        env = {**shop.env, "OPENLINEAGE_URL": receiver.url, "OPENLINEAGE_API_KEY": "k3y-of-lineage"}
        done = subprocess.run(
            [sys.executable, "-c", LOOK],
            env={**env, "PYTHONPATH": str(LIBRARY)},
            cwd=shop.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert receiver.keys == {"Bearer k3y-of-lineage"}
    assert "k3y-of-lineage" not in str(receiver.events) + done.stderr
    table = next(event for event in receiver.events if is_of(event, "datasets_table"))
    facets = table["outputs"][0]["facets"]
    fields = facets["columnLineage"]["fields"]
    assert fields["doi"]["inputFields"][0]["name"] == "datasets_csv"
    assert fields["doi"]["inputFields"][0]["field"] == "doi"
    checks = [event for event in receiver.events if event["job"]["name"] == "datasets_table__checks"]
    assert checks
    assert {"COMPLETE", "START"} <= {event["eventType"] for event in receiver.events}


def is_of(event: dict[str, Any], asset: str) -> bool:
    outputs = [output["name"] for output in event.get("outputs", ())]
    return event["eventType"] == "COMPLETE" and outputs == [asset]

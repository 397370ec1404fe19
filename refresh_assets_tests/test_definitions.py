"""The definitions as Dagster loads them, without any database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from refresh_assets.definitions import build_defs
from refresh_assets.errors import RefreshError
from refresh_assets.published.component import PublishedTable
from refresh_assets.published.table.declaration import DeclarationError

PACKAGE = Path(__file__).parent.parent / "refresh_assets"
TABLES = ("datasets", "dataset_rights")
OURS = ("PG", "REFRESH_", "DAGSTER_", "LEARN_")
FILE_CHECKS = {"row_count", "sha256"}
TABLE_CHECKS = {"row_count", "key_unique", "rows_accounted_for", "drift", "versions", "verified", "as_published"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(OURS):
            monkeypatch.delenv(name)


@pytest.fixture
def repository(no_settings: None) -> dg.RepositoryDefinition:
    return build_defs().get_repository_def()


def asset(repository: dg.RepositoryDefinition, name: str) -> dg.AssetNode:
    return repository.asset_graph.get(dg.AssetKey(name))


def test_they_hold_the_publisher_the_manifest_and_two_assets_a_table(repository: dg.RepositoryDefinition) -> None:
    names = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert names == {"publisher", "manifest", *(f"{table}_{part}" for table in TABLES for part in ("csv", "table"))}


def test_lineage_goes_from_the_publisher_by_the_manifest_and_the_file_to_the_table(
    repository: dg.RepositoryDefinition,
) -> None:
    parents = {
        name: {key.to_user_string() for key in asset(repository, name).parent_keys}
        for name in ("publisher", "manifest", "datasets_csv", "datasets_table")
    }
    assert parents == {
        "publisher": set(),
        "manifest": {"publisher"},
        "datasets_csv": {"manifest"},
        "datasets_table": {"datasets_csv"},
    }


def test_the_publisher_is_external_and_everything_else_is_ours(repository: dg.RepositoryDefinition) -> None:
    external = {node.key.to_user_string() for node in repository.asset_graph.asset_nodes if node.is_external}
    assert external == {"publisher"}


def test_all_assets_are_in_one_group_and_say_of_what_kind_they_are(repository: dg.RepositoryDefinition) -> None:
    nodes = repository.asset_graph.asset_nodes
    assert {node.group_name for node in nodes} == {"published"}
    kinds = {node.key.to_user_string(): node.kinds for node in nodes}
    assert kinds["manifest"] == {"json"}
    assert kinds["datasets_csv"] == {"csv"}
    assert kinds["datasets_table"] == {"postgres", "table"}


def test_the_publishers_kind_follows_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asset(build_defs().get_repository_def(), "publisher").kinds == {"http"}
    monkeypatch.setenv("LEARN_BASE", "file:///srv/published")
    assert asset(build_defs().get_repository_def(), "publisher").kinds == {"file"}


def test_every_asset_has_a_description_and_a_declared_one_its_owners(repository: dg.RepositoryDefinition) -> None:
    for node in repository.asset_graph.asset_nodes:
        assert node.description, node.key
    assert list(asset(repository, "datasets_table").owners) == ["team:data"]
    assert list(asset(repository, "datasets_csv").owners) == ["team:data"]


def test_each_file_and_each_table_has_its_checks_and_the_row_count_of_a_file_blocks(
    repository: dg.RepositoryDefinition,
) -> None:
    blocking = set()
    for table in TABLES:
        for name, expected in ((f"{table}_csv", FILE_CHECKS), (f"{table}_table", TABLE_CHECKS)):
            keys = asset(repository, name).check_keys
            assert {key.name for key in keys} == expected
            specs = {key: repository.asset_graph.get_check_spec(key) for key in keys}
            assert all(spec.description for spec in specs.values())
            blocking |= {(name, key.name) for key, spec in specs.items() if spec.blocking}
    assert blocking == {(f"{table}_csv", "row_count") for table in TABLES}


def test_a_tables_code_version_is_its_declared_versions(repository: dg.RepositoryDefinition) -> None:
    assert asset(repository, "datasets_table").code_version == "transform 1, schema 1"


def test_the_page_of_a_table_lists_its_columns(repository: dg.RepositoryDefinition) -> None:
    schema = asset(repository, "datasets_table").metadata["dagster/column_schema"]
    assert [(column.name, column.type, column.constraints.nullable) for column in schema.columns] == [
        ("dataset_key", "uuid", False),
        ("title", "text", False),
        ("publisher", "text", False),
        ("doi", "text", True),
        ("license", "text", False),
    ]


def test_the_weekly_job_refreshes_every_declared_table_in_one_process(repository: dg.RepositoryDefinition) -> None:
    job = repository.get_job("weekly_refresh")
    keys = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
    assert keys == {"manifest", *(f"{table}_{part}" for table in TABLES for part in ("csv", "table"))}
    assert job.executor_def.name.startswith("in_process")


def test_the_definitions_default_to_one_process_for_what_is_materialized_by_hand() -> None:
    job = build_defs().resolve_implicit_global_asset_job_def()
    assert job.executor_def.name.startswith("in_process")


def test_the_schedule_is_on_from_the_start_on_mondays_at_04_17_in_the_time_zone_of_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = build_defs().get_repository_def().get_schedule_def("weekly_refresh_schedule")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("17 4 * * 1", "UTC")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert schedule.job_name == "weekly_refresh"
    monkeypatch.setenv("REFRESH_TIMEZONE", "Europe/Berlin")
    moved = build_defs().get_repository_def().get_schedule_def("weekly_refresh_schedule")
    assert moved.execution_timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("op", "fields"), [("datasets_csv", {"sha256", "published"}), ("datasets_table", {"allowed", "accept_shrink"})]
)
def test_the_launchpad_describes_every_option(repository: dg.RepositoryDefinition, op: str, fields: set[str]) -> None:
    schema = repository.get_job("weekly_refresh").graph.node_named(op).definition.config_schema
    assert schema is not None
    config = schema.config_type
    assert isinstance(config, dg.Shape)
    assert set(config.fields) == fields
    for name, field in config.fields.items():
        assert field.description, name
        assert not field.is_required, name


def test_a_resource_can_be_replaced_by_name() -> None:
    class Recording(dg.IOManager):
        def handle_output(self, context: dg.OutputContext, obj: object) -> None: ...

        def load_input(self, context: dg.InputContext) -> None: ...

    mine = Recording()
    resources = build_defs(table_io=mine).resources
    assert resources is not None
    assert resources["table_io"] is mine


def test_a_wrong_declaration_names_the_table_and_every_wrong_field() -> None:
    component = PublishedTable.resolve_from_yaml(
        """
        file: ../books.csv
        key: [isbn]
        columns:
          - { name: id, type: integer, nullable: false }
        shrink_limit: 2
        """
    )
    with pytest.raises(DeclarationError) as caught:
        component.declaration("books")
    text = str(caught.value)
    assert "table 'books'" in text
    assert "file '../books.csv'" in text
    assert "key column 'isbn' is not declared" in text
    assert "shrink_limit" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("file: datasets.csv", "file: dataset_rights.csv", "declared by dataset_rights_table and datasets_table"),
        (
            "transform_version: 1",
            "transform_version: 0",
            "table 'datasets': transform_version and schema_version are whole numbers from 1",
        ),
        (
            "transform_version: 1",
            "transform_version: often",
            "1 validation error for PublishedTable\ntransform_version",
        ),
        ("transform_version: 1", "transform_vesion: 1", "attributes.transform_vesion at {declaration}:15"),
        (".PublishedTable", ".PublishdTable", "refresh_assets/defs/datasets/defs.yaml: Module"),
        ("attributes:", "attributes: {}\nothers:", "refresh_assets/defs/datasets/defs.yaml: "),
    ],
)
def test_a_code_location_with_a_wrong_declaration_says_where_and_what(
    tmp_path: Path, right: str, wrong: str, told: str
) -> None:
    shutil.copytree(PACKAGE, tmp_path / "refresh_assets", ignore=shutil.ignore_patterns("__pycache__"))
    declaration = tmp_path / "refresh_assets" / "defs" / "datasets" / "defs.yaml"
    declaration.write_text(declaration.read_text().replace(right, wrong))
    code = "from refresh_assets.definitions import build_defs; build_defs()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert told.format(declaration=declaration) in done.stderr


def test_an_unusable_time_zone_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH_TIMEZONE", "Mars/Olympus")
    with pytest.raises(RefreshError, match="REFRESH_TIMEZONE must be an IANA time zone") as caught:
        build_defs()
    assert "Olympus" not in str(caught.value)

"""The house: two floors, wings that stand apart, imports that point down, files that can be read in one go."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "refresh_assets"
LONGEST_FILE = 400
# Which other wings a wing may know, and of those the lower floor only.
WINGS = {
    "postgres": set(),
    "published": {"postgres"},
    "alerts": {"postgres", "published"},
    "daemon": {"postgres", "alerts"},
    "local": {"postgres", "windows"},
    "windows": {"postgres", "published", "alerts"},
    "requests": {"postgres", "alerts"},
    "defs": set(),
    "commands": set(),
}
# The rooms of a wing that has some, and which others each may know; the wing's own modules stand above them.
ROOMS = {"published": {"csv_file": set(), "publisher": {"csv_file"}, "table": {"csv_file"}}}
# What wires the wings together, and stands above all of them.
BESIDE = {"definitions", "requestable", "cli", "check"}
COMPOSITION = {f"refresh_assets.{name}" for name in BESIDE} | {
    f"refresh_assets.commands.{path.stem}" for path in (ROOT / PACKAGE / "commands").glob("[!_]*.py")
}
WITH_DAGSTER = {"refresh_assets.definitions", "refresh_assets.requestable"}
# It becomes one of Dagster's own programs, whose imports stand in the functions that do so.
BECOMES_DAGSTER = "refresh_assets.local.child"


@dataclass(frozen=True)
class Module:
    """A module of the product with the names of all that it imports, wherever in its text."""

    name: str
    path: Path
    docstring: str
    imports: frozenset[str]

    @property
    def upper(self) -> bool:
        return "Upper floor" in self.docstring

    @property
    def wing(self) -> str | None:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 and parts[1] in WINGS else None

    @property
    def room(self) -> str | None:
        parts = self.name.split(".")
        return parts[2] if len(parts) > 2 and parts[2] in ROOMS.get(self.wing or "", {}) else None

    @property
    def imports_dagster(self) -> bool:
        return any(name.partition(".")[0].startswith("dagster") for name in self.imports)


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Return the names of imported modules, and of what is taken from them, which may be modules as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            assert node.module
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[name] = Module(name, path, ast.get_docstring(tree) or "", frozenset(imported_names(tree)))
    return found


def imported_modules(module: Module) -> set[Module]:
    """Return the modules of the product that a module imports."""
    return {modules()[name] for name in module.imports if name in modules() and name != module.name}


def lower() -> list[Module]:
    return [module for module in modules().values() if not module.upper and module.name not in COMPOSITION]


def test_the_lower_floor_never_imports_dagster() -> None:
    assert [m.name for m in lower() if m.imports_dagster and m.name != BECOMES_DAGSTER] == []


def test_what_calls_itself_upper_floor_imports_dagster_or_stands_on_what_does() -> None:
    upper = [m for m in modules().values() if m.upper]
    assert [m.name for m in upper if not m.imports_dagster and not any(x.upper for x in imported_modules(m))] == []


def test_the_lower_floor_never_imports_the_upper_one() -> None:
    assert [(m.name, up.name) for m in lower() for up in imported_modules(m) if up.upper] == []


def test_nothing_is_built_on_what_wires_it_except_the_run_of_the_whole() -> None:
    above = [(m.name, c.name) for m in modules().values() for c in imported_modules(m) if c.name in COMPOSITION]
    inside = [(name, used) for name, used in above if name not in COMPOSITION]
    assert inside == [("refresh_assets.published.run", "refresh_assets.definitions")]


def test_wings_know_only_the_lower_floor_of_the_wings_below_them() -> None:
    wrong = [
        (m.name, other.name)
        for m in modules().values()
        if m.wing is not None and m.name not in COMPOSITION
        for other in imported_modules(m)
        if other.wing not in (None, m.wing) and (other.wing not in WINGS[m.wing] or other.upper)
    ]
    assert wrong == []


def test_a_room_knows_the_rooms_below_it_and_nothing_above() -> None:
    wrong = [
        (m.name, other.name)
        for m in modules().values()
        if m.room is not None
        for other in imported_modules(m)
        if other.wing == m.wing and other.room != m.room and other.room not in ROOMS[str(m.wing)][m.room]
    ]
    assert wrong == []


def test_every_folder_of_a_wing_is_a_room_with_its_place() -> None:
    folders = {path.parent.relative_to(ROOT / PACKAGE).parts for path in (ROOT / PACKAGE).glob("*/*/__init__.py")}
    assert {(wing, room) for wing, room in folders if wing != "defs"} == {
        (wing, room) for wing, rooms in ROOMS.items() for room in rooms
    }


def test_every_folder_of_the_product_is_a_wing_with_its_place() -> None:
    folders = {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert folders <= set(WINGS)


def test_what_stands_beside_the_wings_knows_none_of_them() -> None:
    beside = [m for m in modules().values() if m.wing is None and m.name not in COMPOSITION]
    assert [(m.name, other.name) for m in beside for other in imported_modules(m) if other.wing] == []


def test_no_imports_go_in_a_circle() -> None:
    graph = {
        m.name: {other.name for other in imported_modules(m) if not is_package_of(other, m)} for m in modules().values()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def is_package_of(package: Module, module: Module) -> bool:
    return module.name.startswith(package.name + ".")


def test_packages_hold_no_code() -> None:
    for module in modules().values():
        if module.path.name == "__init__.py":
            assert len(ast.parse(module.path.read_text(encoding="utf-8")).body) <= 1, module.name


def test_importing_the_lower_floor_and_the_command_line_does_not_load_dagster() -> None:
    names = [m.name for m in lower()] + sorted(COMPOSITION - WITH_DAGSTER)
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert not any(m.partition('.')[0].startswith('dagster') for m in sys.modules), name\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def source_files() -> list[Path]:
    return [path for folder in (PACKAGE, f"{PACKAGE}_tests") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_file_is_too_long_to_be_read_in_one_go() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in source_files()}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


def test_there_is_no_drawer_for_what_has_no_place() -> None:
    drawers = {"util", "utils", "helper", "helpers", "common", "misc", "tools", "lib"}
    named = {part for path in source_files() for part in path.relative_to(ROOT).with_suffix("").parts}
    assert named & drawers == set()


def test_every_module_says_what_belongs_in_it() -> None:
    assert [m.name for m in modules().values() if not m.docstring and m.path.name != "__init__.py"] == []

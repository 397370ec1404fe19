"""The built package: whoever installs it gets all that the code reads."""

from __future__ import annotations

import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(ROOT)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return ZipFile(file)


def test_the_package_holds_every_file_of_the_product(wheel: ZipFile) -> None:
    files = (path for path in (ROOT / "refresh_assets").rglob("*") if path.is_file() and path.suffix != ".pyc")
    names = {path.relative_to(ROOT).as_posix() for path in files}
    assert {Path(name).suffix for name in names} >= {".py", ".sql", ".yaml", ".csv", ".json"}
    assert names - set(wheel.namelist()) == set()


@pytest.mark.parametrize("name", ["dagster.yaml", "workspace.yaml"])
def test_the_package_holds_a_copy_of_the_configuration_of_the_top_level(wheel: ZipFile, name: str) -> None:
    assert wheel.read(f"refresh_assets/{name}") == (ROOT / name).read_bytes()


def test_the_package_says_its_licence_in_a_word_and_carries_the_text(wheel: ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["License-Expression"] == "MIT"
    licence = wheel.read(name.replace("METADATA", "licenses/LICENSE"))
    assert licence == (ROOT / "LICENSE").read_bytes()

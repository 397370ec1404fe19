"""The lock files: what the project asks for is pinned with hashes, and no address stands in them."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCKS = {
    "requirements.lock": ["", "build"],
    "requirements-dev.lock": ["", "build", "dev"],
    "requirements-openlineage.lock": ["openlineage"],
}


def pinned(name: str) -> dict[str, set[Version]]:
    """Return the versions of each package; there may be several, each for other versions of Python."""
    found: dict[str, set[Version]] = {}
    lines = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.+!-]+)", (ROOT / name).read_text(), re.MULTILINE)
    for package, version in lines:
        found.setdefault(canonicalize_name(package), set()).add(Version(version))
    return found


def asked(extra: str) -> list[Requirement]:
    """Return what the project asks for with an extra, and without any for an empty name."""
    found = map(Requirement, requires("refresh-assets") or ())
    return [r for r in found if re.findall(r"extra == .(\w+)", str(r.marker or "")) == ([extra] if extra else [])]


@pytest.mark.parametrize(("name", "extra"), [(name, extra) for name, extras in LOCKS.items() for extra in extras])
def test_what_the_project_asks_for_is_pinned_as_it_asks(name: str, extra: str) -> None:
    lock, wanted = pinned(name), asked(extra)
    assert wanted
    versions = {str(r): lock.get(canonicalize_name(r.name), set()) for r in wanted}
    assert [str(r) for r in wanted if not versions[str(r)] or not all(v in r.specifier for v in versions[str(r)])] == []


@pytest.mark.parametrize("name", LOCKS)
def test_every_pinned_package_has_a_hash_and_no_address_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    packages = re.split(r"\n(?=\S)", text.strip())
    assert [package.split()[0] for package in packages if "--hash=sha256:" not in package] == []

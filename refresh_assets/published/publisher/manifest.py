"""The publisher's list of files: `manifest.json`, read strictly."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refresh_assets.errors import RefreshError

MANIFEST = "manifest.json"
MAX_BYTES = 10_000_000
"""Largest manifest that is accepted: a list of some fifty thousand files."""

_BOM = b"\xef\xbb\xbf"
_NOT_JSON = (
    (b"<", "an HTML page or another kind of markup"),
    (b"\x1f\x8b", "gzip data"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_SHA256 = re.compile("[0-9a-fA-F]{64}")
_LONGEST_WHOLE = 40
_MAX_ROWS = 2**63 - 1
_SHOWN = 20


class ManifestError(RefreshError):
    """The manifest cannot be trusted; the text says `manifest.json` and the field."""


@dataclass(frozen=True)
class ManifestEntry:
    """What the manifest promises of one file: `sha256` in lower-case hex, `rows` without the header."""

    name: str
    sha256: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    """A manifest whose JSON is sound; each entry is checked when it is asked for. `sha256` is that of its bytes."""

    sha256: str
    _files: Mapping[str, Any] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are listed, in the manifest's order; they are never fetched for being listed."""
        return tuple(self._files)

    def entry(self, name: str) -> ManifestEntry:
        """Return what is promised of a file.

        Raises ManifestError where the very name is absent, or its entry is not of the promised form.
        """
        if name not in self._files:
            raise ManifestError(f"{_field(name)} is missing; {_listed(self.names)}")
        entry = self._files[name]
        if not isinstance(entry, dict):
            raise ManifestError(f"{_field(name)} is {_shown(entry)}; it must be an object with sha256 and rows")
        problems = [x for x in (_sha256_problem(entry), _rows_problem(entry)) if x is not None]
        if problems:
            raise ManifestError("; ".join(f"{_field(name)}.{problem}" for problem in problems))
        return ManifestEntry(name, entry["sha256"].lower(), entry["rows"])


def parse_manifest(body: bytes) -> Manifest:
    """Read a manifest: UTF-8 (one leading BOM is dropped), JSON, no key twice in any object.

    Raises ManifestError.
    """
    document = _json(_text(body))
    if not isinstance(document, dict):
        raise ManifestError(f"{MANIFEST} is {_shown(document)}; it must be an object with files")
    if "files" not in document:
        raise ManifestError(f"{MANIFEST}: files is missing")
    files = document["files"]
    if not isinstance(files, dict):
        raise ManifestError(f"{MANIFEST}: files is {_shown(files)}; it must be an object of file names")
    return Manifest(hashlib.sha256(body).hexdigest(), files)


def _text(body: bytes) -> str:
    content = body.removeprefix(_BOM)
    if not content.strip():
        raise ManifestError(f"{MANIFEST} is empty")
    for start, kind in _NOT_JSON:
        if content.lstrip().startswith(start):
            raise ManifestError(f"{MANIFEST} is {kind}, not JSON in UTF-8")
    if b"\0" in content[:4]:
        raise ManifestError(f"{MANIFEST} is UTF-16 or UTF-32 text, not JSON in UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{MANIFEST} is not UTF-8: byte {error.start} after its start does not belong there"
        ) from None


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_no_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise ManifestError(f"{MANIFEST} is not complete JSON: it ends at line {error.lineno}, cut short") from None
        raise ManifestError(
            f"{MANIFEST} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise ManifestError(f"{MANIFEST} is nested too deeply") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        if key in document:
            raise ManifestError(f"{MANIFEST}: the key {_shown(key)} stands twice in one object")
        document[key] = value
    return document


def _whole(digits: str) -> int | float:
    # Python reads no integer of more than 4,300 digits; where one of them is a count of rows, it is told as none.
    return int(digits) if len(digits) <= _LONGEST_WHOLE else float(digits)


def _no_constant(name: str) -> Any:
    raise ManifestError(f"{MANIFEST} is not JSON: it holds {name}")


def _sha256_problem(entry: dict[str, Any]) -> str | None:
    if "sha256" not in entry:
        return "sha256 is missing"
    value = entry["sha256"]
    if isinstance(value, str):
        if _SHA256.fullmatch(value):
            return None
        return f"sha256 is {_shown(value)} of {len(value)} characters; it must be 64 hex digits"
    return f"sha256 is {_shown(value)}; it must be 64 hex digits"


def _rows_problem(entry: dict[str, Any]) -> str | None:
    if "rows" not in entry:
        return "rows is missing"
    value = entry["rows"]
    # A boolean is an int to Python, and no count.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_ROWS:
        return None
    return f"rows is {_shown(value)}; it must be a count of rows, a whole number from 0 to {_MAX_ROWS}"


def _field(name: str) -> str:
    return f"{MANIFEST}: files[{_shown(name)}]"


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return "no file is listed"
    shown = ", ".join(_shown(name) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"listed are {shown}" + (f" and {more} more" if more > 0 else "")


def _shown(value: object) -> str:
    """Return a value as JSON writes it, short and fit for any terminal; of an object or a list only that it is one."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004

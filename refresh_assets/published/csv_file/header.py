"""Matches the names in a file's header with the declared columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from refresh_assets.published.csv_file.fault import SEPARATOR_HINT
from refresh_assets.published.csv_file.file_format import FileFormatError, quoted

_NAMES_SHOWN = 30
_NAME_SHOWN = 60
_DATA = re.compile(r"\d{3}|://")


def match_header(found: Sequence[str], wanted: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the wanted columns in the order of the file `name`.

    Surrounding blanks and letter case do not matter, except where two declared or two found names would become one.
    Raises FileFormatError that names every missing, unknown and repeated column.
    """
    by_fold = _unambiguous(found, wanted)
    matched = [column if column in wanted else by_fold.get(_fold(column)) for column in found]
    problems = _missing(matched, wanted) + _unknown(found, matched) + _repeated(found, matched)
    if problems:
        shown = ", ".join(quoted(column, _NAME_SHOWN) for column in found[:_NAMES_SHOWN])
        more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
        text = f"{name}: header: {'; '.join(problems)}; found {shown}{more}{_hint(found, matched)}"
        raise FileFormatError(text, 1)
    return tuple(column for column in matched if column is not None)


def _fold(column: str) -> str:
    return column.strip().casefold()


def _unambiguous(found: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    in_found, in_wanted = Counter(map(_fold, found)), Counter(map(_fold, wanted))
    folds = ((_fold(column), column) for column in wanted)
    return {fold: column for fold, column in folds if in_wanted[fold] == 1 and in_found[fold] <= 1}


def _missing(matched: Sequence[str | None], wanted: Sequence[str]) -> list[str]:
    missing = [column for column in wanted if column not in matched]
    return [f"missing {_columns(missing)}: {', '.join(missing)}"] if missing else []


def _unknown(found: Sequence[str], matched: Sequence[str | None]) -> list[str]:
    unknown = [quoted(column, _NAME_SHOWN) for column, match in zip(found, matched, strict=True) if match is None]
    more = ", …" if len(unknown) > _NAMES_SHOWN else ""
    return [f"unknown {_columns(unknown)}: {', '.join(unknown[:_NAMES_SHOWN])}{more}"] if unknown else []


def _repeated(found: Sequence[str], matched: Sequence[str | None]) -> list[str]:
    problems = []
    for column, times in Counter(matched).items():
        if column is not None and times > 1:
            places = [i for i, match in enumerate(matched, start=1) if match == column]
            names = ", ".join(f"{quoted(found[i - 1], _NAME_SHOWN)} at position {i}" for i in places)
            problems.append(f"repeated column: {names}")
    return problems


def _columns(columns: Sequence[str]) -> str:
    return "column" if len(columns) == 1 else "columns"


def _hint(found: Sequence[str], matched: Sequence[str | None]) -> str:
    if any(match is not None for match in matched):
        return ""
    if len(found) == 1 and re.search(r"[;\t|]", found[0]):
        return SEPARATOR_HINT
    if any(_DATA.search(column) for column in found):
        return "; the first line looks like a row of data: is the header missing?"
    return "; no name is a declared one: is the header missing?"

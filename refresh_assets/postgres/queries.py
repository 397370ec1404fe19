"""SQL kept as SQL: statements in .sql files, each below a line `-- name: …`."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import cast

from psycopg import sql
from typing_extensions import LiteralString

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def queries(package: str, file: str) -> dict[str, sql.SQL]:
    """Return the statements of a .sql file of a package by name; `{…}` in them takes names through psycopg.sql."""
    text = (files(package) / file).read_text(encoding="utf-8")
    _, *rest = _NAME.split(text)
    return {name: sql.SQL(cast(LiteralString, body.strip())) for name, body in zip(rest[::2], rest[1::2], strict=True)}

"""One CSV record into its values, as Postgres's COPY reads it."""

from __future__ import annotations

import re

_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^,"]*))(,|\Z)')


def split_fields(record: str) -> tuple[str | None, ...]:
    """Return the values of a sound record without its line end: bare empty is None, `""` the empty string."""
    if '"' not in record:
        return tuple(value or None for value in record.split(","))
    values: list[str | None] = []
    for field in _FIELD.finditer(record):
        inner, plain, end = field.groups()
        values.append(plain or None if inner is None else inner.replace('""', '"'))
        if not end:
            break
    return tuple(values)

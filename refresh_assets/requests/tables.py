"""Requests for tables: which of them, and the options that the launchpad offers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from refresh_assets.requests.kinds import Kind, Plan
from refresh_assets.requests.task import BadRequestError

NAME = "tables"
OPTIONS = ("accept_shrink", "allowed", "sha256")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def tables_kind(job: str, declared: Mapping[str, bool], always: str) -> Kind:
    """Return the kind that refreshes tables by a job.

    `declared` says of every table whether it has a filter; `always` is the asset that all of them start from.
    """

    def plan(data: Mapping[str, Any], _now: datetime) -> Plan:
        wanted = _wanted(data, declared)
        config: dict[str, Any] = {}
        for table, options in wanted.items():
            config |= _config(table, options, filtered=declared[table])
        parts = {table: (f"{table}_csv", f"{table}_table") for table in wanted}
        return Plan(job, parts, (always,), {"ops": config} if config else {})

    return Kind(NAME, frozenset((NAME, *OPTIONS)), plan)


def _wanted(data: Mapping[str, Any], declared: Mapping[str, bool]) -> dict[str, Mapping[str, Any]]:
    """Return the tables with the options of each; those beside `tables` hold for all that have none of their own."""
    shared = {name: data[name] for name in OPTIONS if name in data}
    tables = data.get(NAME, sorted(declared))
    if isinstance(tables, str):
        tables = [tables]
    if not isinstance(tables, (list, Mapping)) or not tables:
        raise BadRequestError("tables must be a list of at least one table, or an object of tables with their options")
    if not all(isinstance(table, str) for table in tables):
        raise BadRequestError("tables must list names of tables")
    unknown = [table for table in tables if table not in declared]
    if unknown:
        raise BadRequestError(f"no such table: {', '.join(unknown)}; declared are {', '.join(sorted(declared))}")
    if "sha256" in shared and len(tables) != 1:
        raise BadRequestError('sha256 names the file of one table; give it to that table, as in {"tables": {…}}')
    own = tables if isinstance(tables, Mapping) else {}
    return {table: {**shared, **_options(table, own.get(table))} for table in dict.fromkeys(tables)}


def _options(table: str, options: object) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not set(options) <= set(OPTIONS):
        raise BadRequestError(f"the options of table {table} must be an object with some of {', '.join(OPTIONS)}")
    return options


def _config(table: str, options: Mapping[str, Any], *, filtered: bool) -> dict[str, Any]:
    of_table: dict[str, Any] = {}
    of_file: dict[str, Any] = {}
    if options.get("accept_shrink") is not None:
        if not isinstance(options["accept_shrink"], bool):
            raise BadRequestError(f"accept_shrink of table {table} must be true or false")
        of_table["accept_shrink"] = options["accept_shrink"]
    if options.get("allowed") is not None:
        of_table["allowed"] = _allowed(table, options["allowed"], filtered=filtered)
    if options.get("sha256") is not None:
        of_file["sha256"] = _sha256(table, options["sha256"])
    found = {f"{table}_table": of_table, f"{table}_csv": of_file}
    return {op: {"config": config} for op, config in found.items() if config}


def _allowed(table: str, values: object, *, filtered: bool) -> list[str]:
    if not filtered:
        raise BadRequestError(f"table {table} has no filter, so `allowed` cannot be given")
    if not isinstance(values, list) or not values or not all(isinstance(x, str) and x.strip() for x in values):
        raise BadRequestError(f"allowed of table {table} must list at least one value, each a text")
    if any(_NO_TEXT.search(value) for value in values):
        raise BadRequestError(f"allowed of table {table} has characters that no text in the database has")
    return values


def _sha256(table: str, value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value.lower()):
        raise BadRequestError(f"sha256 of table {table} must be 64 hex digits")
    return value.lower()

"""The commands on the loads that there were: `history`, `diff`, `reload`. Import what they need when they run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.commands.run import finish, refreshed
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.published.compare import Comparison, Difference
    from refresh_assets.published.table.declaration import Table
    from refresh_assets.published.table.history import PastLoad

PUBLISHED = "published"


@click.command(short_help="List the loads of a table, or of all.")
@click.argument("table", required=False)
@click.option(
    "--limit", "most", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many loads, at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a load instead of a line.")
def history(table: str | None, most: int, as_json: bool) -> None:  # noqa: FBT001
    """List the loads of TABLE, or of all tables, the newest first."""
    quiet()
    from refresh_assets.published.past import told_loads
    from refresh_assets.settings import read_settings

    with _told():
        files = {name: declared.file for name, declared in _declared(table).items()}
        loads = told_loads(read_settings(), files, table, most)
    for load in loads:
        click.echo(json.dumps(load.as_json()) if as_json else load.line)
    if not loads and not as_json:
        click.echo(f"no load of {table or 'any table'} yet")


@click.command(short_help="List what changed between two loads.")
@click.argument("old", type=int)
@click.argument("new", type=int)
@click.option(
    "--limit",
    "most",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="How many rows are listed, at most; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a row, after one with the counts.")
def diff(old: int, new: int, most: int, as_json: bool) -> None:  # noqa: FBT001
    """List what changed between the published files of the loads OLD and NEW."""
    quiet()
    from refresh_assets.postgres.connect import connect
    from refresh_assets.published.compare import comparing
    from refresh_assets.published.files import from_cache
    from refresh_assets.published.past import load_of
    from refresh_assets.settings import read_settings

    with _told():
        settings = read_settings()
        loads = [load_of(settings, load_id) for load_id in (old, new)]
        table = _table_of(loads)
        files = [from_cache(settings, load.file, load.sha256) for load in loads]
        with (
            connect(settings.postgres, "refresh-assets diff") as conn,
            comparing(conn, table, *files, statement_seconds=settings.statement_timeout) as found,
        ):
            for line in _json_lines(found, most) if as_json else _lines(table, loads, found, most):
                click.echo(line)


@click.command("reload", short_help="Load an earlier file of a table again.")
@click.argument("table")
@click.argument("load")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a log line.")
@click.option("--accept-shrink", is_flag=True, help="Load although far fewer rows, or none, would be left.")
def reload_file(table: str, load: str, as_json: bool, accept_shrink: bool) -> NoReturn:  # noqa: FBT001
    """Load the file of an earlier LOAD of TABLE again, from the cache; or `published`: what is published now."""
    with _told():
        sha256 = None if load == PUBLISHED else _sha256_of(table, load)
    finish(refreshed([table], accept_shrink=accept_shrink, sha256=sha256, published=load == PUBLISHED), as_json=as_json)


def _sha256_of(table: str, load: str) -> str:
    from refresh_assets.published.past import load_of
    from refresh_assets.settings import read_settings

    if not load.isdecimal():
        raise RefreshError(f"{load!r} is not the number of a load, nor {PUBLISHED!r}")
    declared = _declared(table)[table]
    found = load_of(read_settings(), int(load))
    if found.file != declared.file:
        raise RefreshError(f"load {load} is one of {found.file}; the file of {table} is {declared.file}")
    return found.sha256


def _declared(wanted: str | None = None) -> dict[str, Table]:
    """Return the declared tables. Raises RefreshError where the wanted one is none of them."""
    from refresh_assets.definitions import declarations

    found = {table.name: table for table in declarations()}
    if wanted is not None and wanted not in found:
        raise RefreshError(f"no such table: {wanted}; declared are {', '.join(sorted(found))}")
    return found


def _table_of(loads: list[PastLoad]) -> Table:
    old, new = loads
    if old.file != new.file:
        raise RefreshError(f"load {old.load_id} is one of {old.file}, load {new.load_id} one of {new.file}")
    for table in _declared().values():
        if table.file == new.file:
            return table
    raise RefreshError(f"{new.file} is no longer declared, so its key is not known")


def _lines(table: Table, loads: list[PastLoad], found: Comparison, most: int) -> Iterator[str]:
    old, new = loads
    yield (
        f"{table.file}: load {old.load_id} ({old.sha256[:12]}) to load {new.load_id} ({new.sha256[:12]}): "
        f"{found.added:,} added, {found.changed:,} changed, {found.removed:,} removed"
    )
    for names, which in ((found.only_old, old), (found.only_new, new)):
        if names:
            yield f"only the file of load {which.load_id} has {', '.join(names)}; not compared"
    key = [found.columns.index(name) for name in table.key]
    for row in _first(found, most):
        values = row.new or row.old or ()
        shown = ", ".join(_shown(values[place]) for place in key)
        yield f"{row.kind:<8} {shown}  {'; '.join(_changes(row, found.columns, key))}".rstrip()
    if most and most < found.added + found.changed + found.removed:
        yield f"… {most} are listed; --limit 0 lists all"


def _changes(row: Difference, columns: tuple[str, ...], key: list[int]) -> Iterator[str]:
    for place, name in enumerate(columns):
        if row.old is not None and row.new is not None:
            if row.old[place] != row.new[place]:
                yield f"{name}: {_shown(row.old[place])} -> {_shown(row.new[place])}"
        elif place not in key:
            yield f"{name}: {_shown((row.new or row.old or ())[place])}"


def _shown(value: str | None) -> str:
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False) if not value.isprintable() else value


def _json_lines(found: Comparison, most: int) -> Iterator[str]:
    counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
    yield json.dumps({**counts, "only_old": found.only_old, "only_new": found.only_new})
    for row in _first(found, most):
        sides = {name: dict(zip(found.columns, side, strict=True)) if side else None for name, side in _sides(row)}
        yield json.dumps({"kind": row.kind, **sides})


def _sides(row: Difference) -> tuple[tuple[str, tuple[str | None, ...] | None], ...]:
    return ("old", row.old), ("new", row.new)


def _first(found: Comparison, most: int) -> Iterator[Difference]:
    for number, row in enumerate(found.rows(), start=1):
        if most and number > most:
            return
        yield row


@contextmanager
def _told() -> Iterator[None]:
    """Tell what goes wrong in a line, without passwords, and end with status 1."""
    from refresh_assets.secrets import masked

    try:
        yield
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if isinstance(error, click.ClickException):
            raise
        raise click.ClickException(masked(error)) from error

"""The commands `request …`. They import what they need when they run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from refresh_assets.commands.quiet import quiet
from refresh_assets.errors import RefreshError

if TYPE_CHECKING:
    from refresh_assets.postgres.connect import Connection
    from refresh_assets.requests.client import Request

AT = click.option("--at", "at", metavar="TIME", help="When, in ISO 8601 with a time zone; now without it.")
OPTIONS = {"tables": "--table", "accept_shrink": "--accept-shrink", "allowed": "--allowed", "sha256": "--sha256"}
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")


@click.group(short_help="Ask for one refresh, at an instant.")
def request() -> None:
    """Ask for one refresh, at an instant; `requests`, a sensor of the daemon, runs it."""


@request.command()
@click.argument("name")
@AT
@click.option("--table", "tables", multiple=True, metavar="NAME", help="A table to refresh; may be repeated.")
@click.option("--accept-shrink", is_flag=True, help="Load although far fewer rows, or none, would be left.")
@click.option("--allowed", multiple=True, metavar="VALUE", help="Keep this value of the filter's column; repeatable.")
@click.option("--sha256", metavar="HEX", help="Load this earlier file of the cache.")
@click.option("--data", "text", metavar="JSON", help="What is asked for, as JSON, in place of the options for tables.")
@click.option("--priority", type=int, metavar="N", help="Of those that are due, higher ones are run first.")
@click.option("--replace", is_flag=True, help="Ask in place of what a request of this name asked before.")
def add(  # noqa: PLR0913, PLR0917 - the options of the command
    name: str,
    at: str | None,
    tables: Sequence[str],
    accept_shrink: bool,  # noqa: FBT001
    allowed: Sequence[str],
    sha256: str | None,
    text: str | None,
    priority: int | None,
    replace: bool,  # noqa: FBT001
) -> None:
    """Ask for one refresh, of all tables where none is named."""
    options = {"tables": [*tables], "accept_shrink": accept_shrink, "allowed": [*allowed], "sha256": sha256}
    given = {option: value for option, value in options.items() if value}
    if text is not None and given:
        raise click.UsageError("--data says all that is asked for; leave out " + OPTIONS[min(given)])
    with _client() as (requests, conn):
        data = _object(text) if text is not None else given or None
        when = _instant(at)
        _validate(conn, data, when)
        if replace:
            requests.schedule_or_reschedule(conn, name, when, data, priority=priority)
        elif not requests.schedule_if_not_exists(conn, name, when, data, priority=priority):
            raise RefreshError(f"there is a request {name!r} already; --replace asks in its place, `move` moves it")
        click.echo(_line(requests.get(conn, name)))


@request.command(short_help="Move a request to another instant.")
@click.argument("name")
@AT
def move(name: str, at: str | None) -> None:
    """Move a request to another instant; one that failed for good is asked anew."""
    with _client() as (requests, conn):
        requests.reschedule(conn, name, _instant(at))
        click.echo(_line(requests.get(conn, name)))


@request.command(short_help="Take a request back.")
@click.argument("name")
def cancel(name: str) -> None:
    """Take a request back; one that failed for good is taken off the list."""
    with _client() as (requests, conn):
        requests.cancel(conn, name)
        click.echo(f"{name}: cancelled")


@request.command(name="list", short_help="List the requests that are not done.")
@AS_JSON
def list_requests(as_json: bool) -> None:  # noqa: FBT001
    """List the requests that run, that wait, and that failed for good."""
    with _client() as (requests, conn):
        found = requests.list(conn)
        for line in [json.dumps([_written(one) for one in found])] if as_json else map(_line, found):
            click.echo(line)
        if not found and not as_json:
            click.echo("no request runs, waits or has failed for good")


@request.command(short_help="Tell all of a request.")
@click.argument("name")
@AS_JSON
def show(name: str, as_json: bool) -> None:  # noqa: FBT001
    """Tell all of a request, and how earlier ones of its name ended; exit 1 if there is none."""
    with _client() as (requests, conn):
        found = requests.get(conn, name)
        if found is None:
            raise RefreshError(f"there is no request {name!r}, and none of that name has ended")
        earlier = [one for one in requests.history(conn, name, limit=20) if one != found]
        if as_json:
            click.echo(json.dumps({**_written(found), "earlier": [_written(one) for one in earlier]}))
            return
        for key, value in _written(found).items():
            if value is not None:
                click.echo(f"{key + ':':<13}{json.dumps(value) if isinstance(value, dict) else value}")
        for one in earlier:
            click.echo(f"earlier:     {_line(one)}")


@contextmanager
def _client() -> Iterator[tuple[Any, Connection]]:
    """Give the client and a connection; what goes wrong is told in a line, and the exit status is 1."""
    from refresh_assets.requests import client
    from refresh_assets.requests.storage import connect_requests
    from refresh_assets.secrets import masked

    try:
        with connect_requests() as conn:
            yield client, conn
    except click.ClickException:
        raise
    except Exception as error:
        raise click.ClickException(masked(error)) from error


def _validate(conn: Connection, data: Mapping[str, Any] | None, when: datetime | None) -> None:
    """Refuse now what the sensor would refuse then. Raises RefreshError."""
    quiet()
    from refresh_assets.definitions import build_defs
    from refresh_assets.requestable import kinds_of_requests
    from refresh_assets.requests.kinds import planned
    from refresh_assets.requests.storage import database_time
    from refresh_assets.requests.task import checked_time, encode

    encode(data)
    now = database_time(conn)
    planned(data or {}, kinds_of_requests(build_defs().get_repository_def()), max(now, checked_time(when) or now))


def _object(text: str) -> Mapping[str, Any]:
    from refresh_assets.requests.task import decode

    return decode(text.encode("utf-8", "surrogateescape"))


def _instant(text: str | None) -> datetime | None:
    """Read an instant; whether it has a time zone is the client's to say."""
    if text is None:
        return None
    try:
        # Python 3.10 does not read the Z.
        return datetime.fromisoformat(text.strip().upper().replace("Z", "+00:00"))
    except ValueError:
        raise RefreshError(f"--at {text!r} is no time in ISO 8601, such as 2026-03-02T22:30:00+01:00") from None


def _line(one: Request) -> str:
    # Whoever inserts a row may have put a line break into its name.
    name = one.instance if one.instance.isprintable() else json.dumps(one.instance)
    told = f"{name}: {one.state}, for {one.when.isoformat(timespec='seconds')}"
    if one.priority is not None:
        told += f", priority {one.priority}"
    if one.failures and one.state in ("waiting", "running", "failed"):
        told += f", {one.failures} failed attempt(s)"
    return told + (f": {' '.join(one.error.split())}" if one.error else "")


def _written(one: Request) -> dict[str, Any]:
    from refresh_assets.alerts.settings import ui_url_of
    from refresh_assets.settings import Reader

    ui = ui_url_of(Reader(os.environ))
    return {
        "name": one.instance,
        "state": one.state,
        "for": one.when.isoformat(timespec="seconds"),
        "data": one.data,
        "priority": one.priority,
        "attempts": one.failures,
        "error": one.error,
        "run_id": one.run_id,
        "run": f"{ui}/runs/{one.run_id}" if ui and one.run_id else None,
        "created_at": one.created_at.isoformat(timespec="seconds"),
        "at": one.at.isoformat(timespec="seconds") if one.at else None,
    }

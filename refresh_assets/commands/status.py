"""The command `status`. Imports what it needs when it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click

from refresh_assets.commands.quiet import quiet

if TYPE_CHECKING:
    from refresh_assets.alerts.status import Part


@click.command(short_help="Tell how everything stands.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def status(as_json: bool) -> NoReturn:  # noqa: FBT001
    """Tell how tables, owed mail and the daemon stand; exit 1 if something is overdue."""
    quiet()
    from refresh_assets.alerts.standing import standing
    from refresh_assets.daemon.standing import daemons
    from refresh_assets.published.run import House
    from refresh_assets.requests.standing import requests_part
    from refresh_assets.secrets import masked
    from refresh_assets.windows.overdue import windows_part

    try:
        found = standing(House.load().repository)
        running = daemons(found.now)
        windows = _part_or_why("windows", lambda: windows_part(found.now))
        requests = _part_or_why("requests", requests_part)
        found = replace(found, parts=[part for part in (windows, requests) if part])
    except Exception as error:
        text = masked(error)
        if as_json:
            click.echo(json.dumps({"wrong": [text]}))
            sys.exit(1)
        raise click.ClickException(text) from error
    wrong = [*found.wrong, *running.wrong]
    if as_json:
        told = found.as_json()
        click.echo(json.dumps({**told, "daemon": {**told["daemon"], **running.as_json()}, "wrong": wrong}))
    else:
        for line in (*found.lines(), *running.lines()):
            click.echo(line)
    sys.exit(1 if wrong else 0)


def _part_or_why(name: str, look: Callable[[], Part | None]) -> Part | None:
    """Look at a part, or say why it cannot be looked at: the others are told all the same."""
    import psycopg

    from refresh_assets.alerts.status import Part
    from refresh_assets.errors import RefreshError
    from refresh_assets.secrets import masked

    try:
        return look()
    except (RefreshError, psycopg.Error) as error:
        text = f"{name}: {masked(error)}"
        return Part(name, f"FAILED {text}", {"error": text}, [text])

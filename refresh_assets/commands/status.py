"""The command `status`. Imports what it needs when it runs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import NoReturn

import click

from refresh_assets.commands.quiet import quiet


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def status(as_json: bool) -> NoReturn:  # noqa: FBT001
    """Tell how tables, owed mail and the daemon stand; exit 1 if something is overdue."""
    quiet()
    from refresh_assets.alerts.standing import standing
    from refresh_assets.published.run import House
    from refresh_assets.secrets import masked
    from refresh_assets.windows.overdue import windows_part

    try:
        found = standing(House.load().repository)
        windows = windows_part(found.now)
        found = replace(found, parts=[windows] if windows else [])
    except Exception as error:
        text = masked(error)
        if as_json:
            click.echo(json.dumps({"wrong": [text]}))
            sys.exit(1)
        raise click.ClickException(text) from error
    for line in [json.dumps(found.as_json())] if as_json else found.lines():
        click.echo(line)
    sys.exit(1 if found.wrong else 0)

"""The command `status`. Imports what it needs when it runs."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

import click

from refresh_assets.commands.quiet import quiet


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def status(as_json: bool) -> NoReturn:  # noqa: FBT001
    """Tell how tables, owed mail and the daemon stand; exit 1 if something is overdue."""
    quiet()
    from refresh_assets.alerts.standing import standing
    from refresh_assets.daemon.standing import daemons
    from refresh_assets.published.run import House
    from refresh_assets.requests.standing import requests_status
    from refresh_assets.secrets import masked

    try:
        found = standing(House.load().repository)
        running = daemons(found.now)
        requests = requests_status()
    except Exception as error:
        text = masked(error)
        if as_json:
            click.echo(json.dumps({"wrong": [text]}))
            sys.exit(1)
        raise click.ClickException(text) from error
    wrong = [*found.wrong, *running.wrong, *(requests.wrong if requests else ())]
    if as_json:
        told = {**found.as_json(), "requests": requests.as_json() if requests else None}
        click.echo(json.dumps({**told, "daemon": {**told["daemon"], **running.as_json()}, "wrong": wrong}))
    else:
        for line in (*found.lines(), *running.lines(), *(requests.lines() if requests else ())):
            click.echo(line)
    sys.exit(1 if wrong else 0)

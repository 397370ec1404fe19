"""The command `check`. Imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from refresh_assets.errors import RefreshError


@click.command(short_help="Look whether everything is in place.")
@click.option("--mail", "send_mail", is_flag=True, help="Send a test mail and say what the mail server answered.")
def check(send_mail: bool) -> NoReturn:  # noqa: FBT001
    """Look at settings, database, publisher and mail one by one; exit 1 if one is wrong."""
    from refresh_assets.check import findings
    from refresh_assets.published.run import declared_files

    wrong = False
    try:
        files = declared_files()
    except RefreshError as error:
        raise click.ClickException(str(error)) from error
    for finding in findings(files, send_mail=send_mail):
        click.echo(str(finding))
        wrong = wrong or finding.ok is False
    sys.exit(1 if wrong else 0)

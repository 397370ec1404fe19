"""The command `up`. Imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import NoReturn

import click


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the UI (default: 3000, or the next free one).")
def up(port: int | None) -> NoReturn:
    """Serve the Dagster UI with everything it needs, until Ctrl-C."""
    from refresh_assets.local.up import up as serve

    sys.exit(serve(port=port, echo=click.echo))

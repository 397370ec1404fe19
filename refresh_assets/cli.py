"""The command line: `refresh-assets`."""

from __future__ import annotations

import io
import sys

import click

from refresh_assets.commands.check import check
from refresh_assets.commands.daemon import daemon
from refresh_assets.commands.history import diff, history, reload_file
from refresh_assets.commands.request import request
from refresh_assets.commands.run import run
from refresh_assets.commands.status import status
from refresh_assets.commands.up import up
from refresh_assets.commands.windows import windows


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="refresh-assets")
def main() -> None:
    """Keep Postgres tables equal to what a publisher publishes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal or log cannot show must not swallow the line that it stands in.
            stream.reconfigure(errors="backslashreplace")


for command in (up, run, check, status, daemon, history, diff, reload_file, windows, request):
    main.add_command(command)


if __name__ == "__main__":
    main(prog_name="refresh-assets")

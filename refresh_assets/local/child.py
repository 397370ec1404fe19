"""A process that `up` starts, which ends itself when `up` is gone: `python -m refresh_assets.local.child KIND …`.

`up` holds the other end of its standard input and never writes there; the system closes it however `up` dies.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

PATIENCE = 12.0


def main(arguments: list[str]) -> None:
    """Run one kind of child: `webserver FOLDER PORT`, `daemon FOLDER`, `mail FOLDER PORT` or `keeper HOME [server]`."""
    kind, folder, *rest = arguments
    if kind == "keeper":
        from refresh_assets.local.keeper import keep

        keep(Path(folder), server="server" in rest)
        return
    _end_with_supervisor()
    _default_handlers()
    if kind == "mail":
        from refresh_assets.local.mailbox import serve

        serve(Path(folder), int(rest[0]))
        return
    workspace = str(Path(folder) / "workspace.yaml")
    if kind == "webserver":
        _webserver(workspace, rest[0])
    else:
        _daemon(workspace)


def _webserver(workspace: str, port: str) -> None:
    from dagster_webserver.cli import dagster_webserver

    sys.argv = ["dagster-webserver", "-w", workspace, "-h", "127.0.0.1", "-p", port]
    dagster_webserver(auto_envvar_prefix="DAGSTER_WEBSERVER")


def _daemon(workspace: str) -> None:
    """Become `refresh-assets daemon`, so that a laptop runs what a server does."""
    sys.argv = ["refresh-assets", "daemon", "-w", workspace]
    runpy.run_module("refresh_assets.cli", run_name="__main__")


def _default_handlers() -> None:
    # A shell starts its background jobs with these ignored, and Dagster derives its own handlers from them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with_supervisor() -> None:
    """Watch standard input in a thread; what this process starts gets an empty one instead."""
    watched = os.dup(0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_wait_and_end, args=(watched,), name="supervisor", daemon=True).start()


def _wait_and_end(watched: int) -> None:
    while os.read(watched, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    if sys.platform == "win32" or os.getpgid(0) != os.getpid():
        os._exit(1)
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])

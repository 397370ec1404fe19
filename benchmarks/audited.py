"""Run `refresh-assets` with the given arguments and tell on standard error of every program that it starts."""

from __future__ import annotations

import os
import sys

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system"}


def _tell(event: str, arguments: tuple[object, ...]) -> None:
    if event in STARTS:
        program = os.path.basename(str(arguments[0])) if arguments else "a fork of python"  # noqa: PTH119
        sys.stderr.write(f"started: {program}\n")


if __name__ == "__main__":
    sys.addaudithook(_tell)
    from refresh_assets.cli import main

    main(sys.argv[1:])

"""What a run that finds nothing to do costs: `refresh-assets run` of the bundled tables against an empty Dagster job.

Both are processes of their own, started in turns, on the same Dagster storage; see empty_job.py for what is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from psycopg import sql
from server import database, folder
from verdicts import Verdict, machine, show

import refresh_assets
from refresh_assets.instance import prepare_home
from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres

HERE = Path(__file__).parent
SCHEMA = "benchmark_unchanged"
RUN = ("-m", "refresh_assets.cli", "run", "--json")
EMPTY = (str(HERE / "empty_job.py"),)
LEAN = (*EMPTY, "--lean")
PROCESS_SECONDS = 300


@dataclass
class Measured:
    """What the processes of one kind took, in seconds of wall time and of their own processor time."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def run(arguments: Sequence[str], into: Measured) -> str:
    """Run a Python process to its end; return its standard output."""
    before, start = os.times(), time.monotonic()
    done = subprocess.run(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=PROCESS_SECONDS
    )
    into.wall.append(time.monotonic() - start)
    after = os.times()
    into.processor.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return done.stdout


def check_unchanged(output: str) -> None:
    outcomes = {told["table"]: told["outcome"] for told in map(json.loads, output.splitlines())}
    if set(outcomes.values()) != {"unchanged"}:
        raise SystemExit(f"expected nothing to do: {outcomes}")


def programs_of_a_run() -> set[str]:
    """Return the programs that a run starts, as its audit events and the system's table of processes say."""
    seen: Counter[str] = Counter()
    command = [sys.executable, str(HERE / "audited.py"), *RUN[2:]]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        watcher = threading.Thread(target=_watch, args=(psutil.Process(process.pid), seen))
        watcher.start()
        told = process.communicate(timeout=PROCESS_SECONDS)[1]
        watcher.join()
    if process.returncode != 0:
        raise SystemExit(f"the watched run failed: {told}")
    audited = {line.removeprefix("started: ") for line in told.splitlines() if line.startswith("started: ")}
    # Seen but once, it may have been on its way from the fork to its own program.
    return audited | {name for name, times in seen.items() if times > 1}


def _watch(process: psutil.Process, seen: Counter[str]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    seen[child.name()] += 1
            time.sleep(0.002)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    print(f"machine: {machine()}")
    with folder() as home, database():
        bundled = Path(refresh_assets.__file__).parent / "published_files"
        os.environ.update(
            LEARN_BASE=bundled.as_uri(),
            REFRESH_SCHEMA=SCHEMA,
            REFRESH_HOME=str(home),
            DAGSTER_HOME=str(prepare_home(home)),
        )
        kinds = {RUN: Measured(), EMPTY: Measured(), LEAN: Measured()}
        for command in kinds:
            run(command, Measured())
        for _ in range(arguments.runs):
            for command, into in kinds.items():
                output = run(command, into)
                if command == RUN:
                    check_unchanged(output)
            print("  " + ", ".join(f"{into.wall[-1]:.2f} s" for into in kinds.values()), flush=True)
        programs = programs_of_a_run()
        with connect(read_postgres(), "benchmark") as conn:
            conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))
    ours, empty, lean = kinds.values()
    for program in sorted(programs):
        print(f"  a run starts {program}")
    return show(
        [
            Verdict("unchanged: wall time / empty job", median(ours.wall) / median(empty.wall), 1.15),
            Verdict("unchanged: processor time / empty job", median(ours.processor) / median(empty.processor)),
            Verdict("unchanged: wall time / empty job in our own lean way", median(ours.wall) / median(lean.wall)),
            Verdict("Python processes that a run starts", sum("python" in program for program in programs), 0),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

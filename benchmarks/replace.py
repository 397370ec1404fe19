"""How fast and how much: the locked replace against the classic way, in one run, as ratios beside their bounds.

Every load is a process of its own. The two ways take turns on the same file, each with a table of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import classic
from generate import Published, generate
from psycopg import sql
from server import database, folder
from verdicts import Verdict, machine, show

from refresh_assets.postgres.connect import Connection, connect
from refresh_assets.settings import read_postgres

HERE = Path(__file__).parent
WAYS = ("classic", "ours")
LOAD_SECONDS = 3600
NOISE_SECONDS = 20
MB = 1_000_000
MIB = 1024 * 1024


@dataclass
class Measured:
    """What the loads of one way took: seconds, bytes of WAL and of memory, a reader's longest wait in seconds."""

    seconds: list[float] = field(default_factory=list)
    wal: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@dataclass
class Bench:
    """A database and the loads into it."""

    conn: Connection

    def empty(self, way: str, *, table: bool) -> None:
        """Make the schema of a way anew, with the empty table or without any."""
        schema = sql.Identifier(_schema(way))
        self.conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
        self.conn.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        if table:
            self.conn.execute(sql.SQL(classic.TABLE).format(_table(way)))
        # Of many large loads one would pay for the checkpoint that all of them make due.
        self.conn.execute("CHECKPOINT")

    def settle(self, *, checkpoint: bool) -> None:
        """Do what the server does by itself in the week between two loads."""
        for way in WAYS:
            self.conn.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_table(way)))
        if checkpoint:
            self.conn.execute("CHECKPOINT")

    def load(self, way: str, file: Published, into: Measured, *, read: bool = False) -> None:
        """Load a file in a process of its own, with a reader at the table where asked for."""
        # What was written before, a generated file above all, must not be on its way to the disk meanwhile.
        os.sync()
        with self._reader(way, into) if read else contextlib.nullcontext():
            before = self._wal_position()
            told = self.child(way, file)
            into.wal.append(self._wal_position() - before)
        into.seconds.append(told["seconds"])
        into.memory.append(told["peak_bytes"])
        where = f", WAL {into.wal[-1] / MB:.1f} MB, peak {told['peak_bytes'] / MB:.0f} MB"
        phases = "".join(f", {phase} {seconds:.2f}" for phase, seconds in told.get("phases", {}).items())
        print(f"  {way:<8} {file.path.name} {told['seconds']:.2f} s{where}{phases}", flush=True)
        rows: Any = self.conn.execute(sql.SQL("SELECT count(*) FROM {}").format(_table(way))).fetchone()
        if rows[0] != file.kept:
            raise SystemExit(f"{way} left {rows[0]} rows where {file.kept} are to be kept")

    def child(self, way: str, file: Published) -> dict[str, Any]:
        command = [sys.executable, str(HERE / "one_load.py"), way, "--schema", _schema(way), "--file", str(file.path)]
        command += ["--sha256", file.sha256, "--rows", str(file.rows)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LOAD_SECONDS)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def noise(self) -> float:
        """Return a reader's longest wait in seconds while nothing is loaded: what the machine itself is good for."""
        alone = Measured()
        with self._reader("ours", alone):
            time.sleep(NOISE_SECONDS)
        return alone.waits[0]

    @contextlib.contextmanager
    def _reader(self, way: str, into: Measured) -> Iterator[None]:
        command = [sys.executable, str(HERE / "reader.py"), "--schema", _schema(way)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            if reader.stdout is None or reader.stdout.readline() != "ready\n":
                raise SystemExit("the reader did not start")
            yield
            told = json.loads(reader.communicate(timeout=LOAD_SECONDS)[0])
        into.waits.append(told["longest"])

    def _wal_position(self) -> float:
        row: Any = self.conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        return float(row[0])


def _schema(way: str) -> str:
    return f"benchmark_{way}"


def _table(way: str) -> sql.Identifier:
    return sql.Identifier(_schema(way), "datasets")


def changed_rows(bench: Bench, old: Published, new: Published, runs: int) -> list[Verdict]:
    """Go to and fro between two files that differ in one row of a hundred."""
    print("1 % of the rows changed:")
    ways = {way: Measured() for way in WAYS}
    for _ in range(runs):
        for file in (new, old):
            for way in WAYS:
                bench.load(way, file, ways[way], read=True)
            bench.settle(checkpoint=False)
    print("the same right after a checkpoint:")
    after = {way: Measured() for way in WAYS}
    bench.settle(checkpoint=True)
    for way in WAYS:
        bench.load(way, new, after[way], read=True)
    for way in WAYS:
        bench.load(way, old, Measured())
    bench.settle(checkpoint=False)
    idle = bench.child("idle", old)["peak_bytes"]
    classic_way, ours = ways["classic"], ways["ours"]
    waited = 1000 * max(ours.waits + after["ours"].waits)
    return [
        Verdict("1 % changed: wall time / classic", median(ours.seconds) / median(classic_way.seconds), 0.65),
        Verdict("1 % changed: WAL / classic", median(ours.wal) / median(classic_way.wal), 0.03),
        Verdict(
            "1 % changed: WAL / classic, right after a checkpoint",
            after["ours"].wal[0] / after["classic"].wal[0],
            remark="the server writes each page it touches first whole",
        ),
        Verdict("peak memory above an idle process", (max(ours.memory) - idle) / MIB, 64, " MiB"),
        Verdict("classic: peak memory above an idle process", (max(classic_way.memory) - idle) / MIB, unit=" MiB"),
        Verdict("longest wait of a reader", waited, 50, " ms"),
        Verdict("longest wait of a reader while nothing is loaded", 1000 * bench.noise(), unit=" ms"),
        Verdict("classic: longest wait of a reader", 1000 * max(classic_way.waits), unit=" ms"),
    ]


def first_loads(bench: Bench, file: Published, runs: int) -> list[Verdict]:
    """Load into a table that is empty, and where there is none yet."""
    print("first load:")
    classic_way, empty, absent = Measured(), Measured(), Measured()
    for _ in range(runs):
        bench.empty("classic", table=True)
        bench.load("classic", file, classic_way)
        for table, into in ((True, empty), (False, absent)):
            bench.empty("ours", table=table)
            bench.load("ours", file, into)
    base = median(classic_way.seconds)
    return [
        Verdict("first load into an empty table: wall time / classic", median(empty.seconds) / base, 1.15),
        Verdict("first load, table not there yet: wall time / classic", median(absent.seconds) / base, 1.15),
    ]


def ten_times(bench: Bench, workplace: Path, arguments: argparse.Namespace) -> list[Verdict]:
    """Compare ten times the rows with the rows: first load, into an empty table too, and 1 % changed."""
    print("ten times the rows:")
    first, empty, changed = [], [], []
    memory: list[float] = []
    classic_way = Measured()
    for times in (1, 10):
        old, new = _files(workplace, arguments.rows * times, arguments.left_out)
        _touch_memory(workplace, 10 * old.bytes)
        start, delta, indexed = Measured(), Measured(), Measured()
        for _ in range(arguments.runs):
            bench.empty("ours", table=False)
            bench.load("ours", old, start)
            bench.conn.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_table("ours")))
            bench.load("ours", new, delta)
        bench.empty("ours", table=True)
        bench.load("ours", old, indexed)
        first.append(median(start.seconds))
        changed.append(median(delta.seconds))
        empty.append(indexed.seconds[0])
        memory.append(max(start.memory + delta.memory + indexed.memory))
    bench.empty("classic", table=True)
    bench.load("classic", old, classic_way)
    idle = bench.child("idle", old)["peak_bytes"]
    return [
        Verdict("first load of ten times the rows / of the rows", first[1] / first[0], 11),
        Verdict("1 % changed of ten times the rows / of the rows", changed[1] / changed[0], 11),
        Verdict(
            "first load of ten times the rows into an empty table / of the rows",
            empty[1] / empty[0],
            remark="its index is filled row by row",
        ),
        Verdict("the same / classic", empty[1] / classic_way.seconds[0], 1.15),
        Verdict("ten times the rows: peak memory above an idle process", (memory[1] - idle) / MIB, 64, " MiB"),
        Verdict("ten times the rows: memory above that of the rows", (memory[1] - memory[0]) / MIB, unit=" MiB"),
    ]


def _files(workplace: Path, rows: int, left_out: float) -> tuple[Published, Published]:
    free = shutil.disk_usage(workplace).free
    if free < rows * 2000:
        raise SystemExit(
            f"{rows} rows take {rows * 2000 / 1e9:.0f} GB on the disk of {workplace}; {free / 1e9:.0f} free"
        )
    print(f"generating 2 files of {rows} rows", flush=True)
    return (
        generate(workplace / f"{rows}_a.csv", rows, left_out=left_out),
        generate(workplace / f"{rows}_b.csv", rows, changed=0.01, left_out=left_out),
    )


def _touch_memory(workplace: Path, size: int) -> None:
    """Write a file and remove it.

    A virtual machine is given its memory when it first touches it, several times as slowly as it uses it then: the
    large loads would pay for that, and the small ones not.
    """
    path = workplace / "touched"
    with path.open("wb") as file:
        for _ in range(min(size, shutil.disk_usage(workplace).free // 2) // MIB):
            file.write(bytes(MIB))
    path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--left-out", type=float, default=0.0, help="share of the rows that the filter leaves out")
    parser.add_argument("--ten-million", action="store_true", help="compare with ten times the rows too")
    arguments = parser.parse_args()
    print(f"machine: {machine()}")
    with folder() as workplace, database(), connect(read_postgres(), "benchmark") as conn:
        bench = Bench(conn)
        old, new = _files(workplace, arguments.rows, arguments.left_out)
        verdicts = first_loads(bench, old, arguments.runs)
        bench.settle(checkpoint=False)
        verdicts += changed_rows(bench, old, new, arguments.runs)
        if arguments.ten_million:
            verdicts += ten_times(bench, workplace, arguments)
        for way in WAYS:
            conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(_schema(way))))
    return show(verdicts)


if __name__ == "__main__":
    sys.exit(main())

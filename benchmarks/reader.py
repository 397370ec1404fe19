"""A reader that polls a table every few milliseconds and keeps the longest time that it waited for an answer.

Prints `ready` when it reads, and the longest wait in seconds and the number of reads when its input ends.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time

import psycopg
from psycopg import sql

from refresh_assets.postgres.connect import connect
from refresh_assets.settings import read_postgres

PAUSE_SECONDS = 0.003


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schema", required=True)
    schema = parser.parse_args().schema
    with connect(read_postgres(), "benchmark reader") as conn:
        # Plans and parses once, as a pooled connection of an application does.
        conn.prepare_threshold = 0
        table = sql.Identifier(schema, "datasets")
        keys = [row[0] for row in conn.execute(sql.SQL("SELECT dataset_key FROM {} LIMIT 1000").format(table))]
        query = sql.SQL("SELECT title FROM {} WHERE dataset_key = %s").format(table)
        waits = _poll(conn, query, keys)
    print(json.dumps({"longest": max(waits), "reads": len(waits)}))


def _poll(conn: psycopg.Connection[tuple[object, ...]], query: sql.Composed, keys: list[object]) -> list[float]:
    waits: list[float] = []
    for key in keys[:50]:
        conn.execute(query, (key,)).fetchall()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
        before = time.monotonic()
        conn.execute(query, (keys[len(waits) % len(keys)],)).fetchall()
        waits.append(time.monotonic() - before)
    return waits


if __name__ == "__main__":
    main()

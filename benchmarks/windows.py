"""What counting a window costs: Moodle's table against a GROUP BY by hand, log files against a loop of json.loads.

Every count is a process of its own, in turns with what it is measured against.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median

import psutil
from psycopg import sql
from server import database, folder
from typing_extensions import Self
from verdicts import Verdict, machine, show

from refresh_assets.postgres.connect import Connection, connect, fix_formats
from refresh_assets.settings import read_postgres
from refresh_assets.windows.sources import read_source
from refresh_assets.windows.suppress import suppress
from refresh_assets.windows.window import Window

MIB = 1024 * 1024
SECONDS = 3600
SCHEMA = "benchmark_windows"
SINCE = datetime(2026, 3, 2, 4, 15, tzinfo=timezone.utc)
WINDOW = Window(SINCE, SINCE + timedelta(days=1))
CELLS = """since timestamptz, until timestamptz, course text, kind text, events bigint, learners bigint,
    first_event timestamptz, last_event timestamptz"""
KINDS = ("play_video", "pause_video", "problem_check", "seq_next", "edx.forum.thread.viewed", "/courses/x/about")

# Moodle's standard log with its index on the time; one day's events, of 200 courses and 20,000 users.
MOODLE = """
CREATE TABLE {schema}.mdl_logstore_standard_log AS
SELECT
    i AS id, '\\mod_forum\\event\\discussion_viewed'::varchar(255) AS eventname,
    (ARRAY['mod_forum', 'mod_quiz', 'core', 'mod_page'])[1 + i %% 4]::varchar(100) AS component,
    (ARRAY['viewed', 'created', 'updated'])[1 + i %% 3]::varchar(100) AS action,
    (ARRAY['discussion', 'attempt', 'course', 'course_module', 'user'])[1 + i %% 5]::varchar(100) AS target,
    NULL::varchar(50) AS objecttable, i AS objectid, 'r'::varchar(1) AS crud, 2::smallint AS edulevel,
    i %% 5000 AS contextid, 50::bigint AS contextlevel, i %% 200 AS contextinstanceid,
    (2 + random() * 20000)::bigint AS userid, (1 + random() * 200)::bigint AS courseid, NULL::bigint AS relateduserid,
    0::smallint AS anonymous, 'N;'::text AS other, {since} + (i * 86399 / {events})::bigint AS timecreated,
    'web'::varchar(10) AS origin, '192.0.2.1'::varchar(45) AS ip, NULL::bigint AS realuserid
FROM generate_series(1::bigint, {events}) AS i
"""
BY_HAND = """
INSERT INTO {schema}.by_hand
SELECT
    {since}, {until}, courseid::text, component || '.' || target || '.' || action, count(*), count(DISTINCT userid),
    to_timestamp(min(timecreated)), to_timestamp(max(timecreated))
FROM {schema}.mdl_logstore_standard_log
WHERE timecreated >= {since_epoch} AND timecreated < {until_epoch}
GROUP BY 3, 4
"""


def write_log(path: Path, events: int) -> None:
    """Write a tracking log of one day: some 600 bytes a line, of 200 courses and 50,000 users."""
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(events):
            at = SINCE + timedelta(microseconds=number * 86_399_000_000 // events)
            user, kind = chance.randrange(50_000), chance.choice(KINDS)
            found = {
                "name": kind,
                "event_type": kind,
                "event_source": "browser",
                "time": at.isoformat(timespec="microseconds"),
                "username": f"user-{user}",
                "session": f"{chance.getrandbits(128):032x}",
                "ip": "192.0.2.1",
                "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120",
                "host": "learn.example.org",
                "page": "https://learn.example.org/courses/course-v1:Org+North+1/courseware",
                "context": {
                    "course_id": f"course-v1:Org+C{chance.randrange(200)}+1",
                    "org_id": "Org",
                    "user_id": user,
                    "path": "/event",
                },
                "event": json.dumps({"id": "block", "currentTime": chance.random()}),
            }
            file.write(json.dumps(found) + "\n")


class Peak:
    """The largest resident memory of this process within a block, above that at its beginning, in bytes."""

    def __enter__(self) -> Self:
        self._process = psutil.Process()
        self._idle = self._most = self._process.memory_info().rss
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self._most = max(self._most, self._process.memory_info().rss)

    @property
    def bytes(self) -> int:
        return self._most - self._idle


def count() -> None:
    """Count the window of the log that the settings name, into a table: the work of `ours`, in this process."""
    source = read_source(os.environ)
    with connect(read_postgres(), "benchmark") as conn:
        conn.execute(f"CREATE TEMPORARY TABLE window_cells ({CELLS})".encode())
        conn.execute(f"CREATE TEMPORARY TABLE window_rows ({CELLS}, suppressed boolean)".encode())
        with Peak() as peak:
            begun = time.monotonic()
            with conn.transaction():
                fix_formats(conn)
                source.stage(conn, [WINDOW], lambda _bytes: None)
                suppress(conn, 5)
                conn.execute(f"INSERT INTO {SCHEMA}.ours SELECT * FROM pg_temp.window_rows".encode())
            seconds = time.monotonic() - begun
        print(json.dumps({"seconds": seconds, "bytes": peak.bytes}))


def bare(path: str) -> None:
    begun = time.monotonic()
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)
    print(json.dumps({"seconds": time.monotonic() - begun, "bytes": 0}))


def child(*arguments: str, **settings: str) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS, env={**os.environ, **settings}
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(f"  {settings.get('WINDOW_SOURCE', arguments[0]):<24} {found['seconds']:.2f} s", flush=True)
    return found


def by_hand(conn: Connection) -> float:
    begun = time.monotonic()
    conn.execute(
        sql.SQL(BY_HAND).format(
            schema=sql.Identifier(SCHEMA),
            since=sql.Literal(WINDOW.since),
            until=sql.Literal(WINDOW.until),
            since_epoch=sql.Literal(int(WINDOW.since.timestamp())),
            until_epoch=sql.Literal(int(WINDOW.until.timestamp())),
        )
    )
    print(f"  {'by hand':<24} {time.monotonic() - begun:.2f} s", flush=True)
    return time.monotonic() - begun


def prepare(conn: Connection, events: int) -> None:
    schema = sql.Identifier(SCHEMA)
    for statement in (
        "DROP SCHEMA IF EXISTS {schema} CASCADE",
        "CREATE SCHEMA {schema}",
        f"CREATE TABLE {{schema}}.ours ({CELLS}, suppressed boolean)",
        f"CREATE TABLE {{schema}}.by_hand ({CELLS})",
        MOODLE.replace("%%", "%"),
        "ALTER TABLE {schema}.mdl_logstore_standard_log ADD PRIMARY KEY (id)",
        "CREATE INDEX ON {schema}.mdl_logstore_standard_log (timecreated)",
        "VACUUM (ANALYZE) {schema}.mdl_logstore_standard_log",
    ):
        conn.execute(
            sql.SQL(statement).format(
                schema=schema, events=sql.Literal(events), since=sql.Literal(int(SINCE.timestamp()))
            )
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"machine: {machine()}")
    with folder() as home, database(), connect(read_postgres(), "benchmark") as conn:
        os.environ["REFRESH_HOME"] = str(home)
        prepare(conn, arguments.events)
        log = home / "tracking.log"
        write_log(log, arguments.events)
        moodle, files, hands, bares = [], [], [], []
        for run in range(arguments.runs + 1):
            hand = by_hand(conn)
            table = child("count", WINDOW_SOURCE="moodle", WINDOW_MOODLE_TABLE=f"{SCHEMA}.mdl_logstore_standard_log")
            loop = child("bare", str(log))
            lines = child("count", WINDOW_SOURCE="openedx", WINDOW_LOGS=str(log))
            # What the log holds is remembered, so that an unchanged one is only asked for its version.
            for kept in (home / "windows").glob("*.json"):
                kept.unlink()
            if run:  # the first warms up
                hands.append(hand)
                moodle.append(table)
                bares.append(loop["seconds"])
                files.append(lines)
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))
    return show(
        [
            Verdict("Moodle's table: wall / INSERT ... SELECT by hand", _ratio(moodle, hands), 1.5),
            Verdict("Moodle's table: peak memory above idle", _peak(moodle), 64, " MiB"),
            Verdict("log files: wall / json.loads over all lines", _ratio(files, bares), 3),
            Verdict("log files: peak memory above idle", _peak(files), 64, " MiB"),
        ]
    )


def _ratio(ours: list[dict[str, float]], theirs: list[float]) -> float:
    return median(each["seconds"] for each in ours) / median(theirs)


def _peak(ours: list[dict[str, float]]) -> float:
    return max(each["bytes"] for each in ours) / MIB


if __name__ == "__main__":
    if sys.argv[1:2] == ["count"]:
        count()
    elif sys.argv[1:2] == ["bare"]:
        bare(sys.argv[2])
    else:
        sys.exit(main())

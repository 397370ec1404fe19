"""What the pages are looked at with: an `up` of its own, a publisher whose files change, and refreshes beside it."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from refresh_assets.local.database import published_files
from refresh_assets.settings import read_postgres
from refresh_assets_tests.published_fixtures import csv_text

PORT = 24600
UP_SECONDS = 240
OURS = ("PG", "REFRESH_", "DAGSTER_", "LEARN_", "WINDOW_", "MAKE", "OPENLINEAGE_")
BACKDATE = """
    UPDATE dagster.asset_keys
    SET last_materialization = jsonb_set(
        last_materialization::jsonb, '{event_log_entry,timestamp}', to_jsonb(extract(epoch FROM now()) - %s * 86400)
    )::text
    WHERE asset_key = %s
"""


@dataclass
class Tour:
    """A running `up`: its address, the settings of commands beside it, and the folder that is published."""

    address: str
    env: dict[str, str]
    folder: Path
    _good: str = field(default="", repr=False)

    def publish_an_edition(self) -> None:
        """Publish datasets.csv with three rows changed, one added and one removed, all of them kept by the filter."""
        rows = self._rows()
        kept = [row for row in rows if row[4] in ("CC0 1.0", "CC BY 4.0")]
        kept[0][1] += " (second edition)"
        kept[1][3] = "10.15468/tide25"
        kept[2][2] = "Museum of Natural History"
        rows.remove(kept[5])
        rows.append(["aaaaaaaa-0000-4000-8000-000000000001", "Tide pool survey", "University Museum", "", "CC BY 4.0"])
        self._publish(csv_text(rows[1:], rows[0]), len(rows) - 1)

    def publish_a_bad_row(self) -> None:
        """Publish datasets.csv with a key in line 5 that is none."""
        self._good = self._file.read_text(encoding="utf-8")
        rows = self._rows()
        rows[4][0] = "not-a-key"
        self._publish(csv_text(rows[1:], rows[0]), len(rows) - 1)

    def publish_the_good_one_again(self) -> None:
        self._publish(self._good, len(list(csv.reader(self._good.splitlines()))) - 1)

    def refresh(self) -> str:
        """Refresh all tables as cron does; return what is printed."""
        command = [sys.executable, "-m", "refresh_assets.cli", "run"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=180, check=False)
        return done.stdout

    def sql(self, statement: str, *values: Any) -> None:
        postgres = read_postgres(self.env)
        with psycopg.connect(
            host=postgres.host,
            port=postgres.port,
            user=postgres.user,
            dbname=postgres.database,
            passfile=self.env["PGPASSFILE"],
            connect_timeout=30,
        ) as conn:
            conn.execute(statement.encode(), values or None)

    def backdate(self, asset: str, days: float) -> None:
        """Let the last materialization of an asset be so many days old, for who looks at its freshness."""
        self.sql(BACKDATE, days, json.dumps([asset]))

    @property
    def _file(self) -> Path:
        return self.folder / "learn" / "data" / "datasets.csv"

    def _rows(self) -> list[list[str]]:
        with self._file.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    def _publish(self, content: str, rows: int) -> None:
        self._file.write_text(content, encoding="utf-8")
        path = self._file.with_name("manifest.json")
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["files"]["datasets.csv"] = {"sha256": hashlib.sha256(content.encode()).hexdigest(), "rows": rows}
        path.write_text(json.dumps(manifest), encoding="utf-8")


@contextmanager
def touring(folder: Path) -> Iterator[Tour]:
    """Start `up` on the embedded server and a copy of the bundled files; end it, which must leave nothing behind."""
    files = folder / "published"
    shutil.copytree(published_files(), files)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    env = {**bare, "REFRESH_HOME": str(folder / "pages"), "LEARN_BASE": files.as_uri()}
    process = subprocess.Popen(
        [sys.executable, "-m", "refresh_assets.cli", "up", "--port", str(PORT)],
        # Dagster's own; 30 without it.
        env={**env, "FRESHNESS_DAEMON_INTERVAL_SECONDS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    too_late = threading.Timer(UP_SECONDS, process.terminate)
    too_late.start()
    printed = ""
    while "Ctrl-C stops all" not in printed and (line := process.stdout.readline()):
        printed += line
    too_late.cancel()
    rest = threading.Thread(target=process.stdout.read)
    rest.start()
    try:
        address = re.search(r"^UI +(http://\S+)$", printed, re.MULTILINE)
        exports = re.search(r"^export (.*)$", printed, re.MULTILINE)
        assert address, printed
        assert exports, printed
        settings = dict(word.split("=", 1) for word in shlex.split(exports[1]))
        yield Tour(address[1], {**env, **settings, "DAGSTER_HOME": str(folder / "pages" / "dagster")}, files)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        rest.join(10)

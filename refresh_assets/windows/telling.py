"""What a run tells Dagster of each window, as soon as it is committed. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from refresh_assets.postgres.connect import Connection
from refresh_assets.secrets import mask
from refresh_assets.windows import metadata, state
from refresh_assets.windows.desk import Desk
from refresh_assets.windows.load import Done, Result
from refresh_assets.windows.partitions import Partitions
from refresh_assets.windows.window import Window

REPORTED = "reported"
Event = dg.AssetMaterialization | dg.AssetObservation


@dataclass(frozen=True)
class Telling:
    """A run that tells of windows: of loaded ones by a materialization, of all others by an observation."""

    context: dg.AssetExecutionContext
    asset: dg.AssetKey
    upstream: dg.AssetKey
    partitions: Partitions
    desk: Desk

    def of(self, done: Done) -> Event:
        """Return the event of one window."""
        message = mask(str(done))
        (self.context.log.error if done.outcome == "failed" else self.context.log.info)("windows: %s", message)
        if done.outcome == "loaded" and done.digest is not None:
            return self._materialized(done.window, done.outcome, done.rows or 0, done.digest)
        return dg.AssetObservation(
            self.asset,
            partition=self.partitions.key(done.window),
            description=message,
            metadata=metadata.of_window(done.window, done.outcome, done.rows, reason=mask(done.reason)),
        )

    def of_all(self, result: Result) -> None:
        """Tell how far windows are loaded, and of lines that were no events."""
        if result.standing is not None:
            self.context.log.info("windows: loaded without a gap up to %s", result.standing.marker.isoformat())
        for note in result.notes:
            self.context.log.info("windows: %s", mask(note))
        lines = result.lines
        if lines is not None:
            self.context.log.info(
                "windows: lines of the log left out: %d blank, %d comment, %d broken",
                lines.blank,
                lines.comment,
                lines.broken,
            )

    def earlier(self, load: state.WindowLoad) -> Event:
        """Return the event of a window that was loaded by a run which did not live to tell of it."""
        self.context.log.info("windows: %s: loaded earlier, by a run that could not report it", load.window)
        return self._materialized(load.window, REPORTED, load.rows, load.digest)

    def _materialized(self, window: Window, outcome: str, rows: int, digest: str) -> dg.AssetMaterialization:
        told = metadata.of_window(window, outcome, rows)
        told |= metadata.of_table(self.desk.plan.schema, self.desk.source, self.upstream)
        return dg.AssetMaterialization(
            self.asset,
            partition=self.partitions.key(window),
            metadata=told,
            tags={"dagster/data_version": digest},
        )


def earlier_loads(conn: Connection, telling: Telling) -> Iterator[Event]:
    """Yield the events of windows that are loaded while Dagster does not know it, so that the UI shows what is true."""
    known = telling.context.instance.get_materialized_partitions(telling.asset)
    grid = telling.partitions.grid
    for load in state.loads(conn, telling.desk.plan.schema, grid.first, state.now(conn)):
        if telling.partitions.key(load.window) not in known and grid.last(load.window.since) == load.window.since:
            yield telling.earlier(load)

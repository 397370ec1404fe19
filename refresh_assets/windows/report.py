"""What a run did to each window, read from its events. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from refresh_assets.published.table_report import one_line
from refresh_assets.reasons import run_reason, step_reasons
from refresh_assets.windows.window import Window, text

UP_TO_DATE = "up to date"


@dataclass(frozen=True)
class WindowReport:
    """One window of a run, as `refresh-assets windows run --json` prints it.

    Without bounds it tells of the run as a whole: that nothing was due, or why nothing could be done.
    """

    since: str | None
    until: str | None
    outcome: str
    rows: int | None = None
    run_id: str | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def line(self) -> str:
        """The message for a log line."""
        texts = {
            "loaded": f"loaded {self.rows} rows",
            "unchanged": f"unchanged, {self.rows} rows: another run loaded it just now",
            "locked": "locked: another run is loading it; nothing was done",
            "failed": f"failed: {one_line(self.error or '')}",
            UP_TO_DATE: "already up to date",
        }
        window = f"{self.since}/{self.until}: " if self.since else ""
        return window + texts[self.outcome]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def up_to_date() -> WindowReport:
    return WindowReport(None, None, UP_TO_DATE)


def failed_report(error: str, run_id: str | None = None) -> WindowReport:
    return WindowReport(None, None, "failed", run_id=run_id, error=error)


def reports(
    asset: dg.AssetKey, run_id: str, wanted: Sequence[Window], events: Sequence[dg.DagsterEvent]
) -> list[WindowReport]:
    """Read the reports from the events of a run; `wanted` are the windows that it was to load at the least."""
    told = list(_told(asset, run_id, events))
    reason = _failure(events)
    seen = {(report.since, report.until) for report in told}
    untold = [window for window in wanted if (text(window.since), text(window.until)) not in seen]
    if reason is None:
        return told
    told += [
        WindowReport(text(window.since), text(window.until), "failed", run_id=run_id, error=reason) for window in untold
    ]
    return told if any(report.failed for report in told) else [*told, failed_report(reason, run_id)]


def _told(asset: dg.AssetKey, run_id: str, events: Iterable[dg.DagsterEvent]) -> Iterator[WindowReport]:
    for event in events:
        if event.asset_key != asset:
            continue
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            found = event.step_materialization_data.materialization.metadata
        elif event.event_type == dg.DagsterEventType.ASSET_OBSERVATION:
            found = event.asset_observation_data.asset_observation.metadata
        else:
            continue
        values = {name: getattr(value, "value", value) for name, value in found.items()}
        if values.get("outcome") in ("loaded", "unchanged", "locked", "failed"):
            yield WindowReport(
                str(values["since"]),
                str(values["until"]),
                str(values["outcome"]),
                rows=_number(values.get("dagster/partition_row_count")),
                run_id=run_id,
                error=str(values["reason"]) if "reason" in values else None,
            )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _failure(events: Sequence[dg.DagsterEvent]) -> str | None:
    """Return why a run failed, None where it did not."""
    if not any(event.is_failure for event in events) and any(
        event.event_type == dg.DagsterEventType.RUN_SUCCESS for event in events
    ):
        return None
    return one_line("; ".join(step_reasons(events).values()) or run_reason(events))

"""What the catalogue says of the metrics: what they are, how they are kept, what to do if they are red."""

from __future__ import annotations


def metrics_description(cron: str, timezone: str) -> str:
    """Return Markdown on the table of metrics, whose windows this cron cuts in this time zone."""
    return (
        "For each window, course and kind of activity: events, distinct learners, first and last event. Where few "
        "learners stand behind a row its numbers are hidden.\n\n"
        f"A partition is a window, from one tick of the cron `{cron}` ({timezone}) to the next. A load replaces its "
        "rows as a whole. The schedule `activity_metrics_schedule` loads what is due: missing windows first, and those "
        "of which events came late. To load others, materialize their partitions.\n\n"
        "**If it is red**: a failed check says what it found. A failed partition has the rows that it had: the message "
        "of its run says why, and the next run loads it, or materialize it by hand. Overdue means that no window was "
        "loaded for too long: run `refresh-assets windows run`, or materialize the missing partitions, then see to "
        "the schedule."
    )

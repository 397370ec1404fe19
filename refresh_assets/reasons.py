"""Why a run failed, in the words of its errors. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg
from dagster import AssetCheckEvaluation
from dagster_shared.error import SerializableErrorInfo

INTERRUPTED = "DagsterExecutionInterruptedError"
_WRAPPERS = ("Dagster", "SensorExecutionError", "ScheduleExecutionError")


def innermost(error: SerializableErrorInfo) -> SerializableErrorInfo:
    """Return the error that Dagster's own wrap: the one that a person can mend."""
    while error.cause is not None and (error.cls_name or "").startswith(_WRAPPERS):
        error = error.cause
    return error


def words(error: SerializableErrorInfo) -> str:
    """Return an error's text, all its lines, without the name of its class."""
    kind, colon, text = error.message.strip().partition(": ")
    return text if colon and kind.endswith(error.cls_name or "\n") else error.message.strip()


def failed_checks(events: Iterable[dg.DagsterEvent]) -> list[str]:
    """Return what each failed check of a run says, but for those whose failure is the table's."""
    return [
        f"{evaluation.asset_key.to_user_string()}: {evaluation.check_name}: {evaluation.description}"
        for evaluation in evaluations(events)
        if not evaluation.passed and not evaluation.blocking
    ]


def tracebacks(events: Iterable[dg.DagsterEvent]) -> list[str]:
    """Return where each failed step, or else the run, failed: the traceback of the error that a person can mend."""
    events = list(events)
    errors = [event.step_failure_data.error for event in events if event.is_step_failure]
    if not errors:
        failures = [event for event in events if event.event_type == dg.DagsterEventType.RUN_FAILURE]
        errors = [event.job_failure_data.error for event in failures]
    found = [innermost(error) for error in errors if error is not None]
    # What a check says needs no traceback through Dagster, and what was only interrupted none at all.
    return [error.to_string() for error in found if not (error.cls_name or "").startswith("Dagster")]


def evaluations(events: Iterable[dg.DagsterEvent]) -> Iterable[AssetCheckEvaluation]:
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            yield event.asset_check_evaluation_data


def step_reasons(events: Iterable[dg.DagsterEvent]) -> dict[str, str]:
    """Return why each failed step failed; those that were only interrupted are left out.

    Where a blocking check failed the step, the reason is what the check says.
    """
    events = list(events)
    said = _said_by_blocking_checks(events)
    reasons = {}
    for event in events:
        if not event.is_step_failure or event.step_key is None or event.step_failure_data.error is None:
            continue
        error = innermost(event.step_failure_data.error)
        if error.cls_name == INTERRUPTED:
            continue
        found = said.get(event.step_key) if error.cls_name == "DagsterAssetCheckFailedError" else None
        reasons[event.step_key] = found or words(error)
    return reasons


def run_reason(events: Iterable[dg.DagsterEvent]) -> str:
    """Return why a run as a whole ended badly, where no step of it tells.

    What was reported of it from outside comes first, then the errors of its launch and of its process.
    """
    events = list(events)
    ends = [event for event in events if event.event_type in _ENDS]
    failures = [event for event in ends if event.event_type == dg.DagsterEventType.RUN_FAILURE]
    reported = [event.message or "" for event in failures if _error_of(event) is None]
    errors = [error for event in [*failures, *events] if (error := _error_of(event)) is not None]
    inside = [words(innermost(error)) for error in errors if innermost(error).cls_name != INTERRUPTED]
    cancelled = [event.message or "" for event in ends if event not in failures]
    known = [text for text in [*_telling(reported), *inside, *_telling(cancelled)] if text]
    return known[0] if known else "the run's process was interrupted"


_ENDS = (dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELING, dg.DagsterEventType.RUN_CANCELED)
# What Dagster says where it says nothing.
_EMPTY = (
    "Execution of run for",
    "This job is being forcibly",
    "This run has been marked as failed from outside",
    "Sending run termination request",
)


def _telling(messages: Iterable[str]) -> list[str]:
    return [text for text in messages if not text.startswith(_EMPTY)]


def _error_of(event: dg.DagsterEvent) -> SerializableErrorInfo | None:
    return getattr(event.event_specific_data, "error", None)


def _said_by_blocking_checks(events: Iterable[dg.DagsterEvent]) -> dict[str, str]:
    said: dict[str, str] = {}
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION and event.step_key is not None:
            evaluation = event.asset_check_evaluation_data
            if evaluation.blocking and not evaluation.passed:
                said.setdefault(event.step_key, evaluation.description or evaluation.check_name)
    return said

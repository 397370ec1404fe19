"""The executor of our runs: in one process, with a heartbeat, and a watcher told. Upper floor: imports dagster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from queue import SimpleQueue

import dagster as dg
from dagster._core.definitions.executor_definition import IN_PROC_CONFIG
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.base import Executor
from dagster._core.executor.in_process import InProcessExecutor
from dagster._core.storage.tags import SCHEDULE_NAME_TAG

from refresh_assets.alerts.heartbeat import Heartbeat
from refresh_assets.alerts.limits import usable_limits
from refresh_assets.alerts.ping import ping
from refresh_assets.alerts.problems import alert_problems
from refresh_assets.alerts.settings import ping_url_of
from refresh_assets.reasons import step_reasons
from refresh_assets.recorded import STARTED_BY_TAG
from refresh_assets.settings import Env, Reader

# Found again in the plan of a run, so that only runs which should have a heartbeat are missed without one.
NAME = "in_process_with_heartbeat"
# A refresh that cron starts on the command line is a scheduled one.
_WATCHED_TAGS = {SCHEDULE_NAME_TAG, STARTED_BY_TAG}
Warn = Callable[[str], object]
# What goes on beside the steps of a run, given the time between two heartbeats and how to warn from another thread.
Companion = Callable[[dg.DagsterInstance, dg.DagsterRun, timedelta, Warn], AbstractContextManager[None]]


def alive_executor(*companions: Companion) -> dg.ExecutorDefinition:
    """Return the executor that runs all steps in one process, which proves by a heartbeat that it is alive."""

    @dg.executor(name=NAME, config_schema=IN_PROC_CONFIG)
    def in_process(context: dg.InitExecutorContext) -> Executor:
        inner = dg.in_process_executor.executor_creation_fn(context)  # type: ignore[misc]
        return AliveExecutor(inner, companions)  # type: ignore[arg-type]

    return in_process


in_process_with_heartbeat = alive_executor()


class AliveExecutor(Executor):
    """The in-process executor, with what proves to others that it is at work."""

    def __init__(self, inner: InProcessExecutor, companions: Sequence[Companion] = ()) -> None:
        self._inner = inner
        self._companions = companions

    @property
    def retries(self) -> RetryMode:
        return self._inner.retries

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        """Execute the steps and yield their events."""
        run = plan_context.dagster_run
        watcher = Watcher(plan_context.log.warning) if run.tags.keys() & _WATCHED_TAGS else None
        warn = plan_context.log.warning
        # The thread must not write to Dagster's log itself: while logging is set up, that can lock both for ever.
        problems: SimpleQueue[str] = SimpleQueue()
        for problem in alert_problems():
            warn(f"a setting of alerts cannot be used: {problem}")
        every = usable_limits().beat
        with contextlib.ExitStack() as beside:
            beside.enter_context(Heartbeat(run.run_id, every, problems.put))
            for companion in self._companions:
                beside.enter_context(companion(plan_context.instance, run, every, problems.put))
            events = self._inner.execute(plan_context, execution_plan)
            for event in watcher.told(events) if watcher else events:
                _tell(problems, warn)
                yield event
        _tell(problems, warn)


def _tell(problems: SimpleQueue[str], warn: Warn) -> None:
    while not problems.empty():
        warn(problems.get())


class Watcher:
    """The outside watcher of a scheduled refresh: told of its start, and of its end with what failed."""

    def __init__(self, warn: Warn, env: Env = os.environ) -> None:
        self._warn = warn
        self._env = env
        self._url = ping_url_of(Reader(env))

    def told(self, events: Iterator[dg.DagsterEvent]) -> Iterator[dg.DagsterEvent]:
        """Pass the events on, and tell the watcher of what they say; it is never a reason to fail."""
        failures: list[dg.DagsterEvent] = []
        self._tell("start")
        try:
            for event in events:
                if event.is_failure:
                    failures.append(event)
                yield event
        except GeneratorExit:
            raise
        except BaseException as error:
            self._tell("fail", str(error) or "the run's process was interrupted")
            raise
        if failures:
            self._tell("fail", _reason(failures))
        else:
            self._tell("success")

    def _tell(self, state: str, reason: str = "") -> None:
        if self._url is None:
            return
        problem = ping(self._url, state, reason, self._env)  # type: ignore[arg-type]
        if problem is not None:
            with contextlib.suppress(Exception):
                self._warn(problem)


def _reason(failures: list[dg.DagsterEvent]) -> str:
    reasons = step_reasons(failures)
    lines = [f"{step}: {reason}" for step, reason in reasons.items()]
    return "\n".join(lines) or next((event.message or "" for event in failures), "")

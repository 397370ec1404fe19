"""An empty Dagster job, run in the way of `refresh-assets run`: one op that does nothing.

The same process start, the same definitions loaded, the same instance, storage and recording, as Dagster does them.
With `--lean` the storage is opened as `refresh-assets run` opens it and garbage is collected as seldom as there: what
remains is what five assets and their checks cost, and the refresh itself.
"""

from __future__ import annotations

import argparse
import gc
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lean", action="store_true")
    lean = parser.parse_args().lean
    if lean:
        from refresh_assets.commands.run import COLLECT_AFTER_OBJECTS

        gc.set_threshold(COLLECT_AFTER_OBJECTS)
    import dagster as dg
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run

    from refresh_assets.published.run import House
    from refresh_assets.recorded import storage
    from refresh_assets.settings import read_settings

    @dg.op
    def nothing() -> None:
        """Do nothing."""

    @dg.job(executor_def=dg.in_process_executor)
    def empty() -> None:
        nothing()

    _ = House.load().tables
    with storage(read_settings().home) if lean else dg.DagsterInstance.get() as instance:
        quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        run = instance.create_run_for_job(empty, run_config=quiet)
        if not execute_run(InMemoryJob(empty), run, instance).success:
            sys.exit("the empty job failed")


if __name__ == "__main__":
    main()

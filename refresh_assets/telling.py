"""A failure told in one line of the run's log: Dagster's own events show it among the frames of its stack."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from refresh_assets.errors import RefreshError
from refresh_assets.secrets import masked


@contextlib.contextmanager
def telling(log: logging.Logger, what: str) -> Iterator[None]:
    """Log what a person can mend, then let it pass on."""
    try:
        yield
    except RefreshError as error:
        log.error("%s: failed: %s", what, masked(error))  # noqa: TRY400 - the stack follows in an event of its own
        raise

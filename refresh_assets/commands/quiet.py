"""What libraries say of themselves, kept away from the output of commands."""

from __future__ import annotations

import logging


def quiet() -> None:
    """Keep what libraries say of themselves off standard error."""
    logging.getLogger("alembic").setLevel(logging.WARNING)

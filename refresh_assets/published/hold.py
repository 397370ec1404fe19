"""An earlier file that was loaded by wish: it stays in the published one's place until another one is published."""

from __future__ import annotations

from dataclasses import dataclass

from refresh_assets.postgres.connect import Connection
from refresh_assets.published.table import history


@dataclass(frozen=True)
class Held:
    """The file that a table was made from last, by its sha256, and the published one in whose place it was loaded."""

    sha256: str
    instead_of: str | None


def kept_instead_of(conn: Connection, schema: str, file: str, published: str) -> str | None:
    """Return the sha256 of the earlier file that stays in the place of the published one; None where none does."""
    held = _held(conn, schema, file)
    return held.sha256 if held is not None and held.instead_of == published else None


def would_replace(conn: Connection, schema: str, file: str, wanted: str) -> str | None:
    """Return the sha256 of the published file in whose place a file would be loaded now.

    None where there is none, or where the wanted one is that very file.
    """
    held = _held(conn, schema, file)
    if held is None:
        return None
    published = held.instead_of or held.sha256
    return None if published == wanted else published


def _held(conn: Connection, schema: str, file: str) -> Held | None:
    if not history.exists(conn, schema):
        return None
    state = history.read_state(conn, schema, file)
    if state is None:
        return None
    last = history.last_load(conn, schema, file)
    if last is not None and last.job_key == state.job_key:
        return Held(last.sha256, last.instead_of)
    # Another job loaded since; it knows of no wish.
    loaded = state.parts.get("input")
    return Held(loaded, None) if isinstance(loaded, str) else None

"""The first load of a table that was not there: the rows go straight into it, with no stage between.

Nobody sees the table before the commit, so it may hold what is not checked yet.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from refresh_assets.postgres.connect import Connection, ask_for_memory
from refresh_assets.published.table.keep import Kept, count_kept, seems_to_leave_out
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.send import copy_file
from refresh_assets.published.table.target import Target
from refresh_assets.published.table.unique import telling_repeated_keys


def fill(conn: Connection, load: Load, target: Target, progress: Callable[[int], None]) -> Kept | None:
    """Make the table and fill it from the file; None, and nothing is done, where that cannot be.

    It cannot where the filter leaves rows out, where columns have expressions, or where something of the team's comes
    with every new table. Raises what `stage` raises.
    """
    if load.table.transformed or seems_to_leave_out(load):
        return None
    with conn.transaction() as attempt:
        target.create()
        if not target.is_bare():
            raise psycopg.Rollback(attempt)
        copy_file(conn, load, (load.schema, load.table.name), progress)
        kept = count_kept(conn, load, target.name)
        if kept.rows != load.rows:
            raise psycopg.Rollback(attempt)
        ask_for_memory(conn, "hash")
        with telling_repeated_keys(conn, load.table.key, target.name):
            target.add_key()
        return kept
    return None

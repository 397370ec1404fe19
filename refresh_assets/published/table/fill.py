"""The first load of a table that was not there: the rows go straight into it, with no stage between.

Nobody sees the table before the commit, so it may hold what is not checked yet.
"""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries
from refresh_assets.published.table.keep import Kept, count_kept, keeps
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.send import copy_file
from refresh_assets.published.table.stage import STAGE, check_count, make_stage
from refresh_assets.published.table.unique import check_apart, check_key, make_primary_key

_SESSION = queries("refresh_assets.postgres", "session.sql")


def fill(conn: Connection, load: Load, progress: Callable[[int], None]) -> Kept:
    """Copy the rows to keep into the table, which was made in this transaction as declared, and give it its key.

    What the filter leaves out is sent once more, into a stage, since those rows have to be sound too. Raises what
    `stage` raises.
    """
    into, key = (load.schema, load.table.name), load.table.key
    target, left_out = sql.Identifier(*into), sql.Identifier(*STAGE)
    staged = copy_file(conn, load, into, condition=keeps(load), progress=progress)
    all_kept = staged == load.layout.rows
    if not all_kept:
        make_stage(conn, load)
        staged += copy_file(conn, load, STAGE, condition=sql.SQL("({}) IS NOT TRUE").format(keeps(load)))
    check_count(load, staged)
    conn.execute(_SESSION["sort_memory"])
    make_primary_key(conn, key, target)
    if all_kept:
        return count_kept(conn, load, target)
    check_key(conn, key, STAGE[1])
    check_apart(conn, key, left_out, target)
    return count_kept(conn, load, target, left_out)

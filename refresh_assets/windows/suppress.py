"""Small cells: where too few learners stand behind a row, none of its numbers is shown.

No total is published beside the rows, so that there is nothing from which a hidden number could be subtracted.
"""

from __future__ import annotations

from refresh_assets.postgres.connect import Connection
from refresh_assets.postgres.queries import queries

_SQL = queries("refresh_assets.windows", "sql/suppress.sql")


def suppress(conn: Connection, min_cell: int) -> None:
    """Fill `pg_temp.window_rows` with the rows of `pg_temp.window_cells` as they may be shown.

    Fewer than `min_cell` distinct learners: events, learners and times are NULL, and `suppressed` is true. A row
    depends on its own cell alone, whatever other windows are there.
    """
    conn.execute(_SQL["suppress"], {"min_cell": min_cell})

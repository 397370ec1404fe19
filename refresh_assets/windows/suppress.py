"""Placeholder until merged."""

from refresh_assets.postgres.connect import Connection


def suppress(conn: Connection, min_cell: int) -> None:
    conn.execute(
        "INSERT INTO pg_temp.window_rows SELECT since,until,course,kind,CASE WHEN learners<%(n)s THEN NULL ELSE events END,CASE WHEN learners<%(n)s THEN NULL ELSE learners END,CASE WHEN learners<%(n)s THEN NULL ELSE first_event END,CASE WHEN learners<%(n)s THEN NULL ELSE last_event END, learners<%(n)s FROM pg_temp.window_cells",
        {"n": min_cell},
    )

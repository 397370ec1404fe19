"""How a table stands to its last load: does it still hold it, and was the declaration changed in silence."""

from __future__ import annotations

from dataclasses import dataclass

from refresh_assets.postgres.connect import Connection
from refresh_assets.published.table import history
from refresh_assets.published.table.history import PastLoad, State
from refresh_assets.published.table.job_key import schema_fingerprint, transform_fingerprint
from refresh_assets.published.table.load import Load
from refresh_assets.published.table.target import Target


@dataclass(frozen=True)
class Standing:
    """What is known of a table before anything is done to it.

    `last` is the last load of our history, None where the state is another job's: that load is trusted. `drift` says
    how the table differs from what the last load left, `unbumped` names the version numbers left alone although what
    they stand for differs.
    """

    state: State | None
    last: PastLoad | None
    drift: str | None
    unbumped: tuple[str, ...]
    same_key: bool

    @classmethod
    def read(cls, conn: Connection, load: Load) -> Standing:
        """Read it in the open transaction. Raises RefreshError where the table lacks a declared column."""
        state = history.read_state(conn, load.schema, load.table.file)
        last = history.last_load(conn, load.schema, load.table.file)
        if last is not None and (state is None or state.job_key != last.job_key):
            last = None
        same_key = state is not None and state.job_key == load.job_key
        drift = _drift(conn, load, last, same_key=same_key) if state is not None else None
        return cls(state, last, drift, _unbumped_versions(conn, load), same_key)

    def drift_of(self, rows: int) -> str | None:
        """Return the drift of the table, which holds so many rows.

        With another key it is loaded anyway, and no more than the number of rows is compared.
        """
        if self.drift is not None or self.last is None:
            return self.drift
        recorded = self.last.fingerprint.rows
        return None if rows == recorded else _other_rows(recorded, rows)


def _drift(conn: Connection, load: Load, last: PastLoad | None, *, same_key: bool) -> str | None:
    target = Target(conn, load.schema, load.table)
    if not target.exists():
        return "the table is gone"
    if last is None or not same_key:
        return None
    recorded = last.fingerprint
    target.check_columns()
    now = history.fingerprint(conn, load.schema, load.table, recorded.modulus)
    if now.rows != recorded.rows:
        return _other_rows(recorded.rows, now.rows)
    return None if now.value == recorded.value else "rows were changed behind the last load"


def _unbumped_versions(conn: Connection, load: Load) -> tuple[str, ...]:
    """Return the version numbers under which the history has another transform or other columns than now.

    All of the history counts, so that it is told until the number is raised, whoever loaded in between.
    """
    table = load.table
    now = {
        "transform_version": (str(table.transform_version), transform_fingerprint(table)),
        "schema_version": (str(table.schema_version), schema_fingerprint(table)),
    }
    unbumped = set()
    for transform, transform_print, schema, schema_print in history.versions_used(conn, load.schema, table.file):
        used = {"transform_version": (transform, transform_print), "schema_version": (schema, schema_print)}
        unbumped |= {
            name for name, (version, content) in now.items() if used[name][0] == version and used[name][1] != content
        }
    return tuple(name for name in now if name in unbumped)


def _other_rows(recorded: int, found: int) -> str:
    return f"the table held {found} rows where the last load left {recorded}"

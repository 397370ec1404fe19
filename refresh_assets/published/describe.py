"""What the catalogue says of a declared table and its file: what it is, where it is from, what to do if it is red."""

from __future__ import annotations

from refresh_assets.published.table.declaration import Table


def file_description(table: Table) -> str:
    """Return Markdown on the file."""
    return (
        f"The published file `{table.file}`: fetched, verified against the manifest's sha256, found to be sound CSV. "
        f"{table.description}\n\n"
        "**If it is red**, nothing was loaded and the table is as it was. The run's message says what is wrong, with "
        "line, column and value where it is a row of the file. Most often the publisher must mend the file; one that "
        "did not answer is asked again by the next run."
    )


def table_description(table: Table) -> str:
    """Return Markdown on the table."""
    return (
        f"{table.description or f'The table `{table.name}`.'}\n\n"
        f"Kept equal to the published `{table.file}`{_kept(table)}. Each materialization verifies it; it changes only "
        "the rows that differ. Alone it takes the file that was fetched last; to ask the publisher, materialize "
        f"`{table.name}_csv` with it.\n\n"
        "**If it is red**: a failed check says what it found and what to do. A failed run changed nothing: its message "
        "says why. Overdue means that nobody verified it for too long: run the job `weekly_refresh`, then see to "
        "its schedule."
    )


def _kept(table: Table) -> str:
    if table.filter is None:
        return ""
    values = table.filter.values
    listed = f"the setting `{table.filter.setting}`" if table.filter.setting else ", ".join(f"`{x}`" for x in values)
    return f", of which those rows are kept whose `{table.filter.column}` is one of {listed}"

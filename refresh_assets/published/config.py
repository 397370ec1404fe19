"""What the launchpad offers for a single run. Upper floor: imports dagster."""

import dagster as dg
from pydantic import Field


class FileConfig(dg.Config):
    """Options of a `<name>_csv` asset."""

    sha256: str | None = Field(
        default=None,
        description="Load this earlier file of the cache, named by its sha256 (`refresh-assets history` lists them), "
        "instead of the one published now. It stays until another file is published.",
    )
    published: bool = Field(
        default=False,
        description="Load what is published now, also where an earlier file was loaded by wish.",
    )


class TableConfig(dg.Config):
    """Options of a `<name>_table` asset."""

    allowed: list[str] | None = Field(
        default=None,
        description="Keep the rows whose filter column has one of these values (licences, for datasets), "
        "instead of what the declaration or its setting says.",
    )
    accept_shrink: bool = Field(
        default=False,
        description="Load although far fewer rows, or none, would be left. Otherwise such a load is refused.",
    )

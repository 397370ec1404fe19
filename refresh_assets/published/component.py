"""The Dagster component that a `defs.yaml` names: one published file, declared. Upper floor: imports dagster."""

from typing import Annotated

import dagster as dg
from pydantic import PrivateAttr

from refresh_assets.published.assets import table_assets
from refresh_assets.published.table.declaration import Column, RowFilter, Table


class DeclaredColumn(dg.Model, dg.Resolvable):
    """A column: its name in the file's header and in the table, its Postgres type, and whether it may be NULL."""

    name: str
    type: str
    nullable: bool = True
    expression: str | None = None
    published: bool = True
    published_type: str | None = None
    description: str = ""

    def declaration(self) -> Column:
        return Column(**self.model_dump())


class DeclaredFilter(dg.Model, dg.Resolvable):
    """Keep the rows whose column has one of these values, or of those that a setting lists."""

    column: str
    values: list[str] = []  # noqa: RUF012 - a pydantic field, copied for each instance
    setting: str | None = None

    def declaration(self) -> RowFilter:
        return RowFilter(self.column, tuple(value.strip() for value in self.values), self.setting)


class PublishedTable(dg.Component, dg.Model, dg.Resolvable):
    """A table kept equal to a published CSV file.

    Gives the assets `<name>_csv` and `<name>_table` with their checks, and joins the weekly job. The name is that of
    the folder of the defs.yaml, unless `name` gives another.
    """

    file: str
    key: list[str]
    columns: list[DeclaredColumn]
    name: str | None = None
    filter: DeclaredFilter | None = None
    transform_version: int = 1
    schema_version: int = 1
    shrink_limit: Annotated[float, "smallest share of the rows that a new load may leave"] = 0.5
    owners: list[str] = []  # noqa: RUF012
    description: str = ""
    _declared: Table | None = PrivateAttr(default=None)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the assets. Raises DeclarationError where the declaration contradicts itself."""
        self._declared = self.declaration(context.path.name)
        return dg.Definitions(assets=table_assets(self._declared))

    @property
    def declared(self) -> Table:
        """The declaration that the assets were built from."""
        if self._declared is None:
            raise AssertionError("build_defs comes first")
        return self._declared

    def declaration(self, folder: str) -> Table:
        return Table(
            name=self.name or folder,
            file=self.file,
            key=tuple(self.key),
            columns=tuple(column.declaration() for column in self.columns),
            filter=self.filter.declaration() if self.filter else None,
            transform_version=self.transform_version,
            schema_version=self.schema_version,
            shrink_limit=self.shrink_limit,
            owners=tuple(self.owners),
            description=self.description,
        )

"""The tables that the defs.yaml files declare. Upper floor: imports dagster."""

from __future__ import annotations

import importlib
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import dagster as dg

from refresh_assets.published.component import PublishedTable
from refresh_assets.published.table.declaration import DeclarationError, Table

FILE = "defs.yaml"


@dataclass(frozen=True)
class Declarations:
    """The declarations in the folders of a package of the project in the folder `root`."""

    package: ModuleType
    root: Path

    def tables(self) -> list[Table]:
        """Return what is declared, as plain data. Raises DeclarationError."""
        tree = self._tree()
        self._built(tree)
        return [component.declared for component in tree.get_all_components(PublishedTable)]

    def definitions(self) -> dg.Definitions:
        """Return what is declared, as assets. Raises DeclarationError, which names the file, and what is wrong."""
        return self._built(self._tree())

    def _built(self, tree: dg.ComponentTree) -> dg.Definitions:
        try:
            built = tree.build_defs()
        except Exception as error:
            # Dagster draws the tree of all declarations; the cause at the bottom says what is wrong.
            cause = _bottom(error)
            at = next((file for file in self._files() if str(file) in cause), None) or self._first_wrong()
            where = f"{self.package.__name__.replace('.', '/')}/{at.relative_to(self._folder) if at else ''}"
            raise DeclarationError(f"{where.rstrip('/')}: {cause}") from error
        _one_table_a_file(built)
        return built

    def _first_wrong(self) -> Path | None:
        """Return the first declaration that cannot be read by itself either: not every cause names its file."""
        return next((file for file in self._files() if not self._is_sound(file)), None)

    def _is_sound(self, file: Path) -> bool:
        try:
            self._tree(file.parent).build_defs()
        except Exception:  # noqa: BLE001 - the error is told already; this looks for its place
            return False
        return True

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*/{FILE}"))

    @property
    def _folder(self) -> Path:
        return Path(self.package.__path__[0])

    def _tree(self, folder: Path | None = None) -> dg.ComponentTree:
        package = importlib.import_module(f"{self.package.__name__}.{folder.name}") if folder else self.package
        return dg.ComponentTree.from_module(package, project_root=self.root)


def hush() -> None:
    """Keep quiet what Dagster says of its own functions at every start: the locked version is what is tested."""
    for category in (dg.BetaWarning, dg.PreviewWarning):
        warnings.filterwarnings("ignore", category=category)


def _bottom(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def _one_table_a_file(declared: dg.Definitions) -> None:
    by_file: dict[str, list[str]] = defaultdict(list)
    for asset in declared.assets or ():
        for spec in asset.specs if isinstance(asset, dg.AssetsDefinition) else ():
            if "file" in spec.metadata:
                by_file[str(spec.metadata["file"])].append(spec.key.to_user_string())
    for file, owners in by_file.items():
        if len(owners) > 1:
            raise DeclarationError(
                f"file {file!r} is declared by {' and '.join(sorted(owners))}; the state of a refresh is kept by file, "
                "so each file feeds one table (a view can show it in another shape)"
            )

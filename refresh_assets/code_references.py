"""Links from an asset's page to its code. Upper floor: imports dagster."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

import refresh_assets

_ROOT = Path(refresh_assets.__file__).resolve().parent.parent


def code_references(spec: dg.AssetSpec, code: Path, source_url: str | None) -> dg.CodeReferencesMetadataValue:
    """Return the declaration, where the spec has one, and the file `code`.

    Links lead to files of this machine, or, where it is given, to the same files below `source_url`.
    """
    declared = spec.metadata.get("dagster/code_references")
    found = list(declared.code_references) if isinstance(declared, dg.CodeReferencesMetadataValue) else []
    found.append(dg.LocalFileCodeReference(file_path=str(code), label=code.name))
    return dg.CodeReferencesMetadataValue(code_references=[_linked(reference, source_url) for reference in found])


def _linked(
    reference: dg.LocalFileCodeReference | dg.UrlCodeReference, source_url: str | None
) -> dg.LocalFileCodeReference | dg.UrlCodeReference:
    if source_url is None or not isinstance(reference, dg.LocalFileCodeReference):
        return reference
    path = Path(reference.file_path).resolve()
    if not path.is_relative_to(_ROOT):
        return reference
    line = f"#L{reference.line_number}" if reference.line_number else ""
    url = f"{source_url.rstrip('/')}/{path.relative_to(_ROOT).as_posix()}{line}"
    return dg.UrlCodeReference(url=url, label=reference.label or path.name)

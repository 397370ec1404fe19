"""What the UI shows beside an asset: how fresh it must be, its source, its owners. Upper floor: imports dagster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import dagster as dg

from refresh_assets.code_references import code_references
from refresh_assets.freshness import fresh_within
from refresh_assets.published import assets

# The weekly run has this share of the limit, less than a day in eight, to come late before a table turns yellow.
WARN_SHARE = 0.9
_CODE = Path(assets.__file__).resolve()


def presented(definitions: dg.Definitions, max_age: timedelta, source_url: str | None) -> dg.Definitions:
    """Return the definitions with published tables that must be verified within `max_age`, and links to their code.

    Links lead to files of this machine, or, where it is given, to the same files below `source_url`.
    """
    owners, policy = _owners(definitions), fresh_within(max_age, max_age * WARN_SHARE)

    def dressed(spec: dg.AssetSpec) -> dg.AssetSpec:
        if spec.group_name != assets.GROUP or spec.key == assets.PUBLISHER:
            return spec
        spec = spec.merge_attributes(metadata={"dagster/code_references": code_references(spec, _CODE, source_url)})
        if spec.key == assets.MANIFEST:
            return spec.replace_attributes(owners=owners)
        return dg.apply_freshness_policy(spec, policy) if "file" in spec.metadata else spec

    return definitions.map_asset_specs(func=dressed)


def _owners(definitions: dg.Definitions) -> Sequence[str]:
    """Return everybody who owns a table: all of them depend on the manifest."""
    found = (owner for asset in definitions.assets or () for spec in _specs(asset) for owner in spec.owners)
    return sorted(set(found))


def _specs(asset: object) -> Sequence[dg.AssetSpec]:
    if isinstance(asset, dg.AssetsDefinition):
        return list(asset.specs)
    return [asset] if isinstance(asset, dg.AssetSpec) else []

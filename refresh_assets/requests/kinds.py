"""What a request can ask for. Each kind is one function that makes a plan of the request's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from refresh_assets.requests.task import BadRequestError

KIND = "kind"


@dataclass(frozen=True)
class Plan:
    """The one run that a request needs.

    `parts` are what must be written for the request to be done, each with the assets that write it; a part is what the
    fence is asked about. `assets` are needed whichever parts are left. `config` is Dagster's run configuration; `tags`
    gives the tags of a run for the parts that are left.
    """

    job: str
    parts: Mapping[str, tuple[str, ...]]
    assets: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: Callable[[Sequence[str]], Mapping[str, str]] = lambda _left: {}

    def left(self, done: frozenset[str]) -> list[str]:
        """Return the parts that are not done."""
        return [part for part in self.parts if part not in done]

    def config_of(self, assets: Sequence[str]) -> Mapping[str, Any]:
        """Return the configuration for a run of some assets: that of the others has no place in it."""
        ops = self.config.get("ops")
        if ops is None:
            return self.config
        return {**self.config, "ops": {name: config for name, config in ops.items() if name in assets}}


@dataclass(frozen=True)
class Kind:
    """A kind of request: `keys` are those by which its data are known.

    `plan` is given the data and the instant of the run. It raises RefreshError for what no run could do.
    """

    name: str
    keys: frozenset[str]
    plan: Callable[[Mapping[str, Any], datetime], Plan]


def planned(data: Mapping[str, Any], kinds: Mapping[str, Kind], now: datetime) -> Plan:
    """Make the plan of a request's data for a run at an instant; the first kind is meant where they do not say.

    Raises RefreshError for what no run could do.
    """
    kind = kinds[_name(data, kinds)]
    given = {key: value for key, value in data.items() if key != KIND}
    unknown = sorted(set(given) - kind.keys)
    if unknown:
        known = ", ".join(sorted(kind.keys))
        raise BadRequestError(f"a request for {kind.name} has no {', '.join(map(repr, unknown))}; it may have {known}")
    return kind.plan(given, now)


def _name(data: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    if KIND in data:
        name = data[KIND]
        if not isinstance(name, str) or name not in kinds:
            raise BadRequestError(f"{KIND} {name!r} is none of {', '.join(kinds)}")
        return name
    return next((name for name, kind in kinds.items() if kind.keys & data.keys()), next(iter(kinds)))

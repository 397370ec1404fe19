"""What all stages of `up` share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from refresh_assets.stopping import Stopping


@dataclass(frozen=True)
class House:
    """The product's folder, the environment as given, and how to talk to the person and to hear that it shall stop."""

    home: Path
    given: Mapping[str, str] = field(repr=False)
    echo: Callable[[str], None]
    stopping: Stopping

    @property
    def logs(self) -> Path:
        return self.home / "logs"

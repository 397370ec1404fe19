"""Measured ratios beside their bounds."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """What was measured and the bound it must keep; no bound makes it a mere remark."""

    what: str
    measured: float
    bound: float | None = None
    unit: str = ""
    remark: str = ""

    @property
    def over(self) -> bool:
        return self.bound is not None and self.measured > self.bound

    def line(self) -> str:
        bound = "" if self.bound is None else f"<= {self.bound:g}{self.unit}"
        verdict = "" if self.bound is None else "OVER" if self.over else "ok"
        return f"{self.what:<58} {self.measured:>8.3g}{self.unit:<3} {bound:<10} {verdict:<5} {self.remark}".rstrip()


def show(verdicts: list[Verdict]) -> int:
    """Print the verdicts; return the exit code, 1 where one is over its bound."""
    print()
    for verdict in verdicts:
        print(verdict.line())
    return int(any(verdict.over for verdict in verdicts))


def machine() -> str:
    """Return the machine in a line."""
    model = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"

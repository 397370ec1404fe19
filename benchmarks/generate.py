"""A published file of any size with the columns of `datasets`, and the same file some of whose rows were changed.

The same arguments give the same bytes. A quarter of the titles is quoted, some with doubled quotes, and one in five
has letters beyond ASCII.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from dataclasses import dataclass
from pathlib import Path

HEADER = "dataset_key,title,publisher,doi,license\n"
ALLOWED = ("CC BY 4.0", "CC0 1.0")
OTHER = "CC BY-NC 4.0"
_WORDS = (
    "moss", "lichen", "survey", "records", "of", "the", "north", "valley", "herbarium", "station", "coastal", "plants",
    "birds", "and", "fishes", "along", "river", "plots", "insects", "from", "museum", "collection", "monitoring",
)  # fmt: skip
_PLACES = ("Ådal", "Käferhain", "São Tomé", "Île-de-France")
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Published:
    """A file as its manifest describes it; `kept` of its `rows` pass the filter."""

    path: Path
    rows: int
    kept: int
    sha256: str
    bytes: int


def generate(path: Path, rows: int, *, changed: float = 0.0, left_out: float = 0.0, seed: int = 7) -> Published:
    """Write a file of about 160 bytes a row.

    A share of `changed` rows has another title than without it, one of `left_out` a licence that the filter leaves out.
    """
    rng, choice = random.Random(seed), random.Random(seed + 1)
    titles = [" ".join(rng.choice(_WORDS) for _ in range(rng.randint(5, 14))) for _ in range(5000)]
    titles[::5] = [f"{title} {rng.choice(_PLACES)}" for title in titles[::5]]
    digest, kept, size = hashlib.sha256(), 0, 0
    with path.open("wb") as file:
        for start in range(0, rows, _ROWS_AT_ONCE):
            lines = [] if start else [HEADER]
            for number in range(start, min(start + _ROWS_AT_ONCE, rows)):
                license_ = OTHER if rng.random() < left_out else ALLOWED[rng.random() < 0.3]  # noqa: PLR2004
                kept += license_ != OTHER
                title = _title(titles[rng.randrange(5000)], number, rng.random())
                if choice.random() < changed:
                    title = f"Revised record {number}"
                hexed = f"{rng.getrandbits(128):032x}"
                key = f"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:]}"
                publisher = f"Museum of Natural History {rng.randrange(500)}"
                lines.append(f"{key},{title},{publisher},10.15468/{hexed[:6]},{license_}\n")
            block = "".join(lines).encode()
            digest.update(block)
            size += len(block)
            file.write(block)
    return Published(path, rows, kept, digest.hexdigest(), size)


def _title(words: str, number: int, draw: float) -> str:
    if draw < 0.02:  # noqa: PLR2004
        return f'"{words} ""{number}"""'
    if draw < 0.25:  # noqa: PLR2004
        return f'"{words}, plots {number}"'
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=float, default=0.0, help="share of the rows with another title")
    parser.add_argument("--left-out", type=float, default=0.0, help="share of the rows that the filter leaves out")
    arguments = parser.parse_args()
    print(generate(arguments.path, arguments.rows, changed=arguments.changed, left_out=arguments.left_out))


if __name__ == "__main__":
    main()

"""What the documents say, read as their readers do: code blocks and tables."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def code_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def tables(text: str) -> list[list[dict[str, str]]]:
    """Return the tables: for each its rows, for each row its cells by the column's heading."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        header, _line, *rows = [_cells(line) for line in block.splitlines()]
        found.append([dict(zip(header, row, strict=True)) for row in rows])
    return found


def bare(cell: str) -> str:
    """Return a cell's text without the marks of code."""
    return cell.removeprefix("`").removesuffix("`")


def _cells(line: str) -> list[str]:
    # A bar within a cell is written behind a backslash.
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]

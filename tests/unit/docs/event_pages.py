"""The pages of Events, and the reasons that the code gives Events."""

import re
from collections.abc import Iterable
from pathlib import Path

TREE = Path(__file__).parents[3]


def used_in(sources: Iterable[Path], reason: re.Pattern[str]) -> set[str]:
    """What the pattern finds in the files."""
    return {found for source in sources for found in reason.findall(source.read_text(encoding="utf-8"))}


def explained_on(page: str) -> set[str]:
    """The reasons in the first column of a page's tables."""
    return {reason for cell in _first_cells(page) for reason in re.findall(r"`(\w+)`", cell)}


def marked_on(page: str, mark: str) -> set[str]:
    """Those of them that the page marks so, such as ``official``."""
    cells = [cell for cell in _first_cells(page) if f"({mark})" in cell]
    return {reason for cell in cells for reason in re.findall(r"`(\w+)`", cell)}


def _first_cells(page: str) -> list[str]:
    lines = (TREE / "docs" / "reference" / page).read_text(encoding="utf-8").splitlines()
    return [line.split("|")[1] for line in lines if line.startswith("| `")]

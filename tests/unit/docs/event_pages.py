"""The pages of Events, and the reasons that the code gives Events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

TREE = Path(__file__).parents[3]


def used_in(sources: Iterable[Path], reason: re.Pattern[str]) -> set[str]:
    """What the pattern finds in the files."""
    return {found for source in sources for found in reason.findall(source.read_text(encoding="utf-8"))}


def explained_on(page: str) -> set[str]:
    """The reasons in the first column of a page's tables."""
    lines = (TREE / "docs" / "reference" / page).read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    return {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}

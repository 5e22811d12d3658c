"""``./dev doctor``: what is there, what is missing and how to get it."""

from __future__ import annotations

import argparse

from sandbox.doctor import environment_lines, examine
from sandbox.overview import aligned
from sandbox.site import Clone

HELP = "show what is installed and what is missing"
WITHOUT_ADDRESSES = True
MARKS = {"ok": "✓", "missing": "✗", "note": "•"}


def run(clone: Clone, _arguments: argparse.Namespace) -> int:
    """Print the checks; 1 if something that is needed is missing."""
    checks = list(examine(clone))
    print(environment_lines())
    print(
        aligned(
            [
                (
                    MARKS[check.verdict],
                    check.what,
                    check.found + (f" → {check.remedy}" if check.remedy else ""),
                )
                for check in checks
            ]
        )
    )
    return int(any(check.verdict == "missing" for check in checks))

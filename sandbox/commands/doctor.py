"""``./dev doctor``: what is there, what is missing and how to get it."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from sandbox.doctor import environment_lines, examine
from sandbox.site import Site

HELP = "tell what is there, what is missing and how to get it; changes nothing"
MARKS = {"ok": "✓", "missing": "✗", "note": "•"}


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(site: Site, _arguments: argparse.Namespace) -> int:
    """Print the checks; 1 if something that is needed is missing."""
    console = Console()
    console.print(environment_lines(), highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    checks = list(examine(site))
    for check in checks:
        table.add_row(
            MARKS[check.verdict], check.what, check.found, f"→ {check.remedy}" if check.remedy else ""
        )
    console.print(table)
    return int(any(check.verdict == "missing" for check in checks))

"""What CONTRIBUTING.md says of the lengths of files and functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TREE = Path(__file__).parents[3]
ROOMS = ("ccm", "infra", "image", "release", "sandbox", "bench", "pytest_hetzner_cloud")
FILES = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in (TREE / room).rglob("*.py")}
RULE = re.compile(
    r"Files have at most (\d+) lines and half of them fewer than (\d+); functions at most (\d+), "
    r"half of them fewer than (\d+)\."
)


def lengths_of_functions() -> dict[str, int]:
    return {
        f"{path.relative_to(TREE)}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, text in FILES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def assert_lengths(lengths: dict[str, int], most: int, half: int) -> None:
    assert {name: length for name, length in lengths.items() if length > most} == {}
    assert 2 * sum(length < half for length in lengths.values()) >= len(lengths)


def test_files_and_functions_are_as_short_as_they_should_be() -> None:
    text = " ".join((TREE / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    rule = RULE.search(text)
    assert rule
    files_most, files_half, functions_most, functions_half = map(int, rule.groups())
    files = {str(path.relative_to(TREE)): len(text.splitlines()) for path, text in FILES.items()}
    assert_lengths(files, files_most, files_half)
    assert_lengths(lengths_of_functions(), functions_most, functions_half)

"""What CONTRIBUTING.md says of waiting: no test hopes that some seconds are enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
LEAST = 30.0
"""Seconds that what has to happen may take at least: a busy machine is often twenty times slower."""
WHY = "# short: "
"""Begins the reason of a shorter bound, in its line: it has to be reached, or nothing depends on it."""
VIRTUAL = ("looptime", "VirtualLoop", "bench.lab.clock")
"""In files with one of these words time costs nothing."""

files = pytest.mark.parametrize("file", sorted(TESTS.rglob("*.py")), ids=lambda file: file.name)


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func)


def number(node: ast.expr | None) -> float | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def bounds(call: ast.Call) -> Iterator[float]:
    """The seconds, where they are written down, after which a call gives up."""
    name = name_of(call)
    places = {"asyncio.timeout": 0, "asyncio.wait_for": 1}
    found = [call.args[places[name]]] if name in places and len(call.args) > places[name] else []
    found += [one.value for one in call.keywords if one.arg in {"timeout", "connect_timeout"}]
    if name.endswith((".join", ".wait", ".result", ".settimeout")) and len(call.args) == 1:
        found += call.args
    yield from (seconds for one in found if (seconds := number(one)) is not None)


def sleeps(tree: ast.AST, *, polled: bool = False) -> Iterator[ast.Call]:
    """Pauses that are no part of a loop that looks again."""
    for node in ast.iter_child_nodes(tree):
        pauses = isinstance(node, ast.Call) and name_of(node) in {"asyncio.sleep", "time.sleep"}
        if pauses and not polled and number(node.args[0]) != 0:
            yield node
        yield from sleeps(node, polled=polled or isinstance(node, ast.While | ast.For))


def told(file: Path, calls: Iterator[ast.Call]) -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [
        f"{file.relative_to(TESTS)}:{call.lineno}: {ast.unparse(call)}"
        for call in calls
        if not any(WHY in line for line in lines[call.lineno - 1 : (call.end_lineno or call.lineno)])
    ]


@files
def test_what_has_to_happen_may_take_long_and_nothing_sleeps_in_hope(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if any(word in text for word in VIRTUAL):
        return
    tree = ast.parse(text)
    short = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(seconds < LEAST for seconds in bounds(node))
    )
    assert told(file, short) == []
    assert told(file, sleeps(tree)) == []

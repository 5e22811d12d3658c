"""One style of docstrings, and one way to get a logger, in all of the code.

A docstring says the contract first. Entries of its sections are sentences, named as what they document; code
in it is between two backticks on each side; what it refers to exists. ruff holds the rest (its rules D,
Google's convention).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]
ROOMS = ("ccm", "infra", "image", "sandbox", "bench")
FILES = {room: sorted((TREE / room).rglob("*.py")) for room in ROOMS}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
SECTION = re.compile(r"^(Args|Attributes|Raises):$")
ENTRY = re.compile(r"^    (?P<names>\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (?P<text>.*)$")
# The contract is on the interface that a method implements, and nowhere else.
ELSEWHERE = re.compile(r"See :(meth|class):`~?[\w.]+`(; .*|\.)", re.DOTALL)
REFERENCE = re.compile(r":(?:class|meth|func|mod|data|attr):`~?([\w.]+)`")
LITERAL = re.compile(r":\w+:`[^`]+`|``[^`]+``")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def documented(path: Path) -> list[tuple[Documented, str]]:
    nodes = [node for node in ast.walk(parsed(path)) if isinstance(node, Documented)]
    return [(node, text) for node in nodes if (text := ast.get_docstring(node))]


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and first words of each entry."""
    section = ""
    for line in text.splitlines():
        if heading := SECTION.fullmatch(line):
            section = heading[1]
        elif line and not line.startswith(" "):
            section = ""
        elif section and (entry := ENTRY.fullmatch(line)):
            for name in entry["names"].split(", "):
                yield section, name, entry["text"]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_have_one_style(room: str) -> None:
    wrong = [
        (str(path.relative_to(TREE)), getattr(node, "name", "module"), fault)
        for path in FILES[room]
        for node, text in documented(path)
        for fault in faults(node, text)
    ]
    assert wrong == []


def faults(node: Documented, text: str) -> Iterator[str]:
    if text.startswith("See ") and not ELSEWHERE.fullmatch(text):
        yield "says no contract"
    if "`" in LITERAL.sub("", text):
        yield "single backticks"
    known = names_of(node)
    for section, name, words in entries(text):
        if words[:1].islower():
            yield f"no sentence: {section}, {name}"
        if section != "Raises" and known is not None and name.lstrip("*") not in known:
            yield f"documents what is not there: {section}, {name}"


def names_of(node: Documented) -> set[str] | None:
    """What can be documented as an argument or attribute; None = anything."""
    if isinstance(node, ast.Module):
        return None
    if isinstance(node, ast.ClassDef):
        return None if node.bases else {name for one in node.body for name in _defined(one)}
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {one.arg for one in (*every, arguments.vararg, arguments.kwarg) if one is not None}


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    if node.name != "__init__":
        return {node.name}
    assigned = {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
    }
    return (names_of(node) or set()) | assigned


def test_what_docstrings_refer_to_exists() -> None:
    every = [path for room in ROOMS for path in FILES[room]]
    named = {name for path in every for _, text in documented(path) for name in REFERENCE.findall(text)}
    full = sorted(name for name in named if name.split(".")[0] in ROOMS)
    assert len(full) > 40
    assert [name for name in full if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether there is such a module, or such a name in one, or in a class of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place = TREE.joinpath(*parts[:end])
        source = next(
            (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None
        )
        if source is not None:
            return _has(parsed(source), parts[end:])
    return False


def _has(scope: ast.Module | ast.ClassDef, names: list[str]) -> bool:
    if not names:
        return True
    inside = next((one for one in scope.body if isinstance(one, ast.ClassDef) and one.name == names[0]), None)
    if inside is not None:
        return _has(inside, names[1:])
    imported = {
        alias.asname or alias.name
        for one in scope.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    }
    return names[0] in imported.union(*(_defined(one) for one in scope.body))


LOGGERS = {
    "ccm": "log = structlog.stdlib.get_logger(__name__)",  # fields, and no secrets
    "sandbox": "log = logging.getLogger(__name__)",  # beside those of aiohttp and asyncssh
}


@pytest.mark.parametrize("room", LOGGERS)
def test_there_is_one_way_to_get_a_logger(room: str) -> None:
    others: list[str] = []
    for path in FILES[room]:
        if "ogger(" not in path.read_text(encoding="utf-8"):
            continue
        module = parsed(path)
        made = sum(_makes_logger(node) for node in ast.walk(module))
        if made != sum(ast.unparse(statement) == LOGGERS[room] for statement in module.body):
            others.append(str(path.relative_to(TREE)))
    assert others == []


def _makes_logger(node: ast.AST) -> bool:
    """Whether a logger of our own is made, and not one of a library's set up."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    named = [ast.unparse(argument) for argument in node.args] == ["__name__"]
    return node.func.attr == "get_logger" or (node.func.attr == "getLogger" and named)

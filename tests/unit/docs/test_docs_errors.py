"""Every package draws its tree of errors at the top of errors.py, and leaves none out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3]
ROOMS = ("ccm", "image", "infra", "release", "sandbox")
FILES = [path for room in ROOMS for path in sorted(TREE.glob(f"{room}/**/errors.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TREE)))
def test_the_tree_is_complete(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    errors = [node.name for node in module.body if isinstance(node, ast.ClassDef) and is_error(node)]
    drawn = ast.get_docstring(module) or ""
    assert len(errors) < 2 or [name for name in errors if name not in drawn] == []


def is_error(node: ast.ClassDef) -> bool:
    """A class of facts has no base, a private one is nobody else's."""
    return bool(node.bases) and not node.name.startswith("_")

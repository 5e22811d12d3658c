"""What came of the changes to a module, kept for the next run by what it follows from.

That is the content of the module, of its judges and of every file of the tree that they import, directly or
not; of the folders' ``conftest.py``; of this package, the lock of the packages and pytest's settings. So
a module is measured anew if anything differs that could make a difference, and no other.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.mutation.verdict import Change, Mutant

_TREES = ("ccm", "sandbox", "tests")
_ALWAYS = ("pyproject.toml", "requirements.lock")
MOST = 8  # results of one module
_OURS = ("engine.py", "kept.py", "verdict.py", "plugin/quick_judges.py")


def key(root: Path, module: str, tests: Sequence[str]) -> str:
    """A name for everything that the result for a module follows from, by content.

    Args:
        root: The tree, or a copy of it.
        module: The module's path in it.
        tests: Paths of the tests that judge it.
    """
    digest = hashlib.sha256(json.dumps([sys.version, module, list(tests)]).encode())
    here = Path(__file__).parent
    files = [
        *(here / name for name in _OURS),
        *(root / name for name in _ALWAYS),
        *_followed(root, module, tests),
    ]
    for path in files:
        if path.is_file():
            digest.update(json.dumps([path.name, path.stat().st_size]).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def read(folder: Path, name: str) -> list[Mutant] | None:
    """What was kept under a name; None = nothing, or nothing that can be understood."""
    try:
        rows = json.loads((folder / f"{name}.json").read_text())
        return [Mutant(row["status"], Change(**row["change"])) for row in rows]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, name: str, mutants: Sequence[Mutant]) -> None:
    """Keep it, all or nothing; of what is in the folder only the newest :data:`MOST` stay."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{name}.{os.getpid()}"
    new.write_text(json.dumps([asdict(one) for one in mutants]))
    new.replace(folder / f"{name}.json")
    newest = sorted(folder.glob("*.json"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
    for old in newest[MOST:]:
        old.unlink(missing_ok=True)


def _followed(root: Path, module: str, tests: Sequence[str]) -> list[Path]:
    """The module, its judges and what they import, with files of other kinds that lie beside any of these."""
    todo = [root / module]
    for test in tests:
        path = root / test
        todo += path.rglob("*.py") if path.is_dir() else [path]
        todo += [folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").is_file()]
    helpers = {path.stem: path for path in (root / "tests").rglob("*.py")}
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        source = path.read_text()
        if "import_module" in source:  # by names that only show when it runs
            todo += (root / path.relative_to(root).parts[0]).rglob("*.py")
        for name in _imported(ast.parse(source)):
            todo += _files(root, name)
            if name in helpers:
                todo.append(helpers[name])
    beside = {one for folder in {path.parent for path in found} for one in folder.iterdir()}
    return sorted(found | {one for one in beside if one.is_file() and one.suffix not in {".py", ".pyc"}})


def _imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules, also of those that may be none but something in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _files(root: Path, name: str) -> Iterator[Path]:
    """The files of a module of the tree: its own, and those of the packages that it is in."""
    parts = name.split(".")
    folders = [root] if parts[0] in _TREES else root.glob(f"packages/*/src/{parts[0]}/..")
    for folder in folders:
        for length in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:length])
            candidates = (place / "__init__.py", place.with_name(place.name + ".py"))
            yield from (path for path in candidates if path.is_file())

"""Which tests belong to a path: a file or folder of tests, or the tests that import or name a source."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox.errors import SandboxError

_OF_TESTS = re.compile(r"tests(/.*)?|packages/[^/]+(/tests(/.*)?)?")
_SOURCES = re.compile(r"packages/[^/]+/src/")


def files_for(root: Path, paths: Sequence[str]) -> list[str]:
    """The test files for some paths, relative to the clone, in their order of discovery.

    A path of tests, or a distribution, selects itself, and may name one test as pytest does (``FILE::NAME``).
    Any other path selects the test files that import a module of it, or that contain the path.
    """
    found: dict[str, None] = {}
    for path in paths:
        plain = path.partition("::")[0].rstrip("/")
        if not (root / plain).exists():
            raise SandboxError(f"{path}: no such file or folder in {root}")
        if _OF_TESTS.fullmatch(plain):
            found[path] = None
            continue
        files = list(_users(root, plain))
        if not files:
            raise SandboxError(f"{path}: no test uses this file; ./dev test unit runs all fast tests")
        found |= dict.fromkeys(files)
    return list(found)


def _users(root: Path, path: str) -> Iterator[str]:
    uses = re.compile("|".join((_imports(path), re.escape(path))), re.MULTILINE)
    folders = [root, *root.glob("packages/*")]
    files = (file for folder in folders for file in (folder / "tests").rglob("test_*.py"))
    for file in sorted(files):
        if uses.search(file.read_text(encoding="utf-8")):
            yield str(file.relative_to(root))


def _imports(path: str) -> str:
    """A pattern for the imports of a module, or of what is below a package."""
    module = _SOURCES.sub("", path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    direct = rf"^\s*(?:from|import) {re.escape(module)}\b"
    if not package:
        return direct
    return rf"{direct}|^\s*from {re.escape(package)} import (?:[^(\n]*|\([^)]*)\b{re.escape(name)}\b"

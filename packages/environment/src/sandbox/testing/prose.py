"""What Vale says of the pages, and of the messages in the sources, by the rules in ``docs/prose``."""

import ast
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import MissingRequirement
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import MODULES, Component
from sandbox.kubernetes.processes import Progress

_VALE = "github.com/vale-cli/vale/v3"
VALE = Component(
    "vale",
    pin=_VALE,
    packages=(f"{_VALE}/cmd/vale",),
    programs=("vale",),
    tags=("netgo", "osusergo"),
    cgo=True,  # for tree-sitter
    folder=MODULES,
)
CONFIGURATION = "docs/prose/vale.ini"
SOURCES = (
    "ccm/**/*.py",
    "ccm_pulumi/**/*.py",
    "infra/**/*.py",
    "packages/*/src/**/*.py",
)
_MIN_WORDS = 6
_IN_MESSAGES = re.compile(r"^(.*\.py)\.txt:(\d+)", re.MULTILINE)


def findings(root: Path, cache: Path, progress: Progress) -> str:
    """Errors in the tree's prose, one a line, as ``file:line:column:rule:message``.

    Raises MissingRequirement if Vale can't be built, or if git can't list the files, as in a source archive.
    """
    vale = toolchain.ensure(cache, progress, [VALE]).bin / "vale"
    command = ["git", "ls-files", "*.md"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise MissingRequirement(f"git can't list the pages: {listed.stderr.strip()}")
    said = run_vale(vale, root, root, listed.stdout.split())
    with tempfile.TemporaryDirectory() as folder:
        texts: list[str] = []
        for source in sorted(path for pattern in SOURCES for path in root.glob(pattern)):
            if "tests" not in source.parts:
                texts.append(f"{source.relative_to(root)}.txt")
                target = Path(folder, texts[-1])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(message_lines(source.read_text(encoding="utf-8")), encoding="utf-8")
        in_messages = run_vale(vale, root, Path(folder), texts)
    return said + _IN_MESSAGES.sub(lambda found: f"{found[1]}:{int(found[2]) // 2 + 1}", in_messages)


def message_lines(source: str) -> str:
    """The messages of a source as paragraphs: strings of at least six words that aren't docstrings.

    Line 2n - 1 is the message that begins on line n. All other lines are empty.
    """
    tree = ast.parse(source)
    lines = [""] * (source.count("\n") + 1)
    for node in _strings(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        words = "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in parts).split()
        if len(words) >= _MIN_WORDS and re.search(r"[a-z] [a-z]", " ".join(words)):
            lines[node.lineno - 1] = " ".join(words)
    return "\n\n".join(lines)


def _strings(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    nodes = list(ast.walk(tree))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            yield node


def run_vale(vale: Path, root: Path, folder: Path, files: list[str]) -> str:
    """Run Vale with the clone's rules on files in a folder; returns findings as :func:`findings`."""
    command = [str(vale), f"--config={root / CONFIGURATION}", "--output=line", "--no-exit", *files]
    environment = {**os.environ, "HOME": str(folder), "VALE_CONFIG_PATH": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr

"""Have mutmut change a copy of one module and run the tests that judge it after each change.

mutmut writes all changed versions of each function into one file and chooses one in a forked process, so that
Python, pytest and the tests are loaded once: several changes a second. It runs only the tests that came
through the changed function. What it doesn't change: module and class level (tables, defaults of fields),
functions with a decorator (properties), and coroutines outside classes: these ask the cloud or wait, and
slower tests judge them.
"""

import ast
import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import libcst
from mutmut.mutation.diff_apply import read_functions_from_index
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

from bench.lab.processes import child
from bench.lab.report import BenchError

WORKERS = 2
SECONDS = 3600.0  # for one module
TREES = ("ccm", "packages", "tests")
_FILES = ("conftest.py", "pyproject.toml", "requirements.lock")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", ".venv", "*.pyc")
# Calls of the logger: a log is for people and decides nothing.
_NOT_CHANGED = r"^\s*log\.(debug|info|warning|error|exception)\("
_COROUTINE = re.compile(r"^async def [\s\S]*?:$", re.MULTILINE)
_PLUGIN = Path(__file__).with_name("plugin")
_PYTEST = (
    "-p",
    "no:cacheprovider",
    "-p",
    "quick_judges",
    "--hypothesis-profile=mutants",
    "--hypothesis-seed=0",
)
_SENTENCE = re.compile(r'"([^"\\]* [^"\\]*)"')


@dataclass(frozen=True)
class Mutant:
    """A change to one function, and what came of it."""

    status: str  # what mutmut says
    module: str  # path of the file
    function: str  # name; of a method, after its class' and a dot
    line: int  # of the file, the first that differs
    was: str  # the lines that differ, in one, without indentation
    becomes: str  # what they become; empty if they go

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}\n    - {self.was}\n    + {self.becomes}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is, wherever the line went."""
        return self.module, self.function, self.was, self.becomes

    @property
    def is_wording(self) -> bool:
        """Whether it only spells a sentence otherwise: a text of several words, in the ways mutmut has."""
        return any(
            self.becomes == self.was.replace(f'"{text}"', f'"{other}"')
            for text in _SENTENCE.findall(self.was)
            for other in (f"XX{text}XX", text.lower(), text.upper())
        )


def mutants_of(root: Path, module: str, tests: Sequence[str], cache: Path | None = None) -> list[Mutant]:
    """All changes to one module, and what came of each."""
    name = module.replace("/", ".")
    kept = cache / f"{name}-{_contents(root, module)}.json" if cache else None
    if kept and kept.is_file():
        return [Mutant(**one) for one in json.loads(kept.read_text())]
    with tempfile.TemporaryDirectory(prefix="ccm-mutants-") as place:
        folder = Path(place)
        for tree in TREES:
            shutil.copytree(root / tree, folder / tree, symlinks=True, ignore=_NOT_COPIED)
        for file in _FILES:
            shutil.copy(root / file, folder)
        changed = folder / module
        changed.write_text(_COROUTINE.sub(r"\g<0>  # pragma: no mutate block", changed.read_text()))
        with (folder / "pyproject.toml").open("a") as settings:
            settings.write(_settings(module, tests))
        _run(folder, module)
        found = _found(folder, module)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{name}-*.json"):
            old.unlink()
        kept.write_text(json.dumps([asdict(one) for one in found]))
    return found


def _contents(root: Path, module: str) -> str:
    digest = hashlib.sha256(json.dumps([sys.version, module]).encode())
    sources = [root / "bench" / "mutation", *(root / tree for tree in TREES)]
    files = sorted(path for folder in sources for path in folder.rglob("*.py"))
    for path in (*files, *(root / name for name in _FILES)):
        digest.update(json.dumps([str(path.relative_to(root)), path.read_text()]).encode())
    return digest.hexdigest()


def _settings(module: str, tests: Sequence[str]) -> str:
    # JSON's lists of texts are TOML's.
    return f"""
[tool.mutmut]
source_paths = ["ccm"]
only_mutate = {json.dumps([module])}
also_copy = ["conftest.py"]
do_not_mutate_patterns = {json.dumps([_NOT_CHANGED])}
pytest_add_cli_args = {json.dumps(_PYTEST)}
pytest_add_cli_args_test_selection = {json.dumps(list(tests))}
"""


def _run(folder: Path, module: str) -> None:
    """Run mutmut to its end. Its workers, which are in its group, end with it."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(WORKERS)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_PLUGIN)}
    log = folder / "log"
    with child(command, log=log, directory=folder, environment=environment) as process:
        try:
            code = process.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code:
        last = "\n".join(log.read_text(errors="replace").replace("\r", "\n").splitlines()[-30:])
        raise BenchError(f"{module}: mutmut ended with {code}:\n{last}")


def _found(folder: Path, module: str) -> list[Mutant]:
    codes = json.loads((folder / "mutants" / f"{module}.meta").read_text())["exit_code_by_key"]
    lines: dict[tuple[str | None, str], int] = {}
    for node in ast.parse((folder / module).read_text()).body:
        owner = node.name if isinstance(node, ast.ClassDef) else None
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                lines[owner, one.name] = one.lineno
    with contextlib.chdir(folder):  # where mutmut looks for what it wrote
        return [_mutant(name, status_by_exit_code[code], module, lines) for name, code in codes.items()]


def _mutant(name: str, status: str, module: str, lines: dict[tuple[str | None, str], int]) -> Mutant:
    function, owner = orig_function_and_class_names_from_key(name)
    pair = read_functions_from_index(name, module)
    if pair is None:
        raise BenchError(f"mutmut did not write what {name} is")
    was, becomes = (libcst.Module([one]).code.strip().splitlines() for one in pair)
    first = next(index for index, line in enumerate(was) if line.startswith(("def ", "async def ")))
    blocks = difflib.SequenceMatcher(a=was, b=becomes, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    return Mutant(
        status,
        module,
        f"{owner}.{function}" if owner else function,
        line=lines[owner, function] + changed[0][1] - first,
        was=" ".join(line.strip() for _, start, end, _, _ in changed for line in was[start:end]),
        becomes=" ".join(line.strip() for _, _, _, start, end in changed for line in becomes[start:end]),
    )

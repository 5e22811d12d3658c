"""Have mutmut change a copy of one module and run the tests that judge it after each change.

mutmut writes all changed versions of each function into one file and chooses one in a forked process, so that
Python, pytest and the tests are loaded once: several changes a second. It runs only the tests that came
through the changed function. What it doesn't change: module and class level (tables, defaults of fields),
functions with a decorator (properties).
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import libcst
from mutmut.mutation.diff_apply import read_functions_from_index
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

from bench.lab.processes import child
from bench.lab.report import BenchError
from bench.mutation.verdict import Change, Mutant

WORKERS = 2
SECONDS = 3600.0  # for one module
_COPIED = ("ccm", "packages", "sandbox", "tests")
_SETTINGS = ("conftest.py", "pyproject.toml", "requirements.lock")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", ".venv", "*.pyc")
# Calls of the logger: what stands in a log is told to people and decides nothing.
_NOT_CHANGED = r"^\s*log\.(debug|info|warning|error|exception)\("
_PLUGIN = Path(__file__).with_name("plugin")
_PYTEST = (
    "-p",
    "no:cacheprovider",
    "-p",
    "quick_judges",
    "--hypothesis-profile=mutants",
    "--hypothesis-seed=0",
)


def copy(root: Path, folder: Path) -> None:
    """Copy what the tests of the CCM need.

    Args:
        root: The tree, which is only read.
        folder: An empty one.
    """
    for name in _COPIED:
        shutil.copytree(root / name, folder / name, symlinks=True, ignore=_NOT_COPIED)
    for name in _SETTINGS:
        shutil.copy(root / name, folder)


def mutants_of(folder: Path, module: str, tests: Sequence[str]) -> list[Mutant]:
    """All changes to one module and what came of each.

    Args:
        folder: A copy of the tree, which is changed.
        module: Its path in the tree.
        tests: Paths of the tests that judge it.

    Raises:
        BenchError: The tests fail without any change, or mutmut failed otherwise.
    """
    with (folder / "pyproject.toml").open("a") as file:
        file.write(_settings(module, tests))
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(WORKERS)]
    log = folder / "log"
    with _alone(command, folder, log) as code:
        if code != 0:
            last = "\n".join(log.read_text(errors="replace").replace("\r", "\n").splitlines()[-30:])
            raise BenchError(f"{module}: mutmut ended with {code}:\n{last}")
    return _found(folder, module)


def _settings(module: str, tests: Sequence[str]) -> str:
    # JSON's lists of texts are TOML's.
    return f"""
[tool.mutmut]
source_paths = ["ccm"]
only_mutate = {json.dumps([module])}
also_copy = ["conftest.py", "sandbox"]
do_not_mutate_patterns = {json.dumps([_NOT_CHANGED])}
pytest_add_cli_args = {json.dumps(_PYTEST)}
pytest_add_cli_args_test_selection = {json.dumps(list(tests))}
"""


@contextmanager
def _alone(command: Sequence[str], folder: Path, log: Path) -> Iterator[int]:
    """Run a command to its end; its exit code. Its workers, which are in its group, end with it."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_PLUGIN)}
    with child(command, log=log, directory=folder, environment=environment) as process:
        try:
            yield process.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _found(folder: Path, module: str) -> list[Mutant]:
    told = json.loads((folder / "mutants" / f"{module}.meta").read_text())
    lines = _lines_of_functions((folder / module).read_text())
    with contextlib.chdir(folder):  # where mutmut looks for what it wrote
        return [
            Mutant(status_by_exit_code[code], _change(name, module, lines))
            for name, code in told["exit_code_by_key"].items()
        ]


def _lines_of_functions(source: str) -> dict[tuple[str | None, str], int]:
    """The line of each function's ``def``, by class and name; of two the last, which counts."""
    found: dict[tuple[str | None, str], int] = {}
    for node in ast.parse(source).body:
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        for one in body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name if isinstance(node, ast.ClassDef) else None, one.name] = one.lineno
    return found


def _change(name: str, module: str, lines: dict[tuple[str | None, str], int]) -> Change:
    function, owner = orig_function_and_class_names_from_key(name)
    pair = read_functions_from_index(name, module)
    if pair is None:
        raise BenchError(f"mutmut did not write what {name} is")
    was, becomes = (libcst.Module([one]).code.strip().splitlines() for one in pair)
    first = next(index for index, line in enumerate(was) if line.startswith(("def ", "async def ")))
    blocks = difflib.SequenceMatcher(a=was, b=becomes, autojunk=False).get_opcodes()
    changed = [block for block in blocks if block[0] != "equal"]
    return Change(
        module=module,
        function=f"{owner}.{function}" if owner else function,
        line=lines[owner, function] + changed[0][1] - first,
        was=" ".join(line.strip() for _, start, end, _, _ in changed for line in was[start:end]),
        becomes=" ".join(line.strip() for _, _, _, start, end in changed for line in becomes[start:end]),
    )

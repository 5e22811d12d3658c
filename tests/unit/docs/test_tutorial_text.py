import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.conftest import TREE
from tests.e2e.documents import edits_in
from tests.tutorial_steps import program_of

TUTORIAL = TREE / "docs/tutorial"
PARTS = sorted(TUTORIAL.glob("[0-9]-*.md"))
BUILT = ["1", "2", "3", "4", "5"]


def page_of(part: str) -> str:
    (page,) = TUTORIAL.glob(f"{part}-*.md")
    return page.read_text(encoding="utf-8")


def step(name: str) -> dict[str, str]:
    """The files of a step where the reader has them."""
    folder = "my-cluster" if name == "part-2" else "my-ccm"
    return {f"{folder}/{file}": squeezed(text) for file, text in program_of(name).items()}


def squeezed(text: str) -> str:
    """A file without the number of its blank lines: the page's blocks begin without any."""
    return re.sub(r"\n{2,}", "\n\n", text)


def without_solutions(page: str) -> str:
    return re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)


def states(page: str, start: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The reader's files after each edit."""
    files = dict(start)
    for edit in edits_in(page):
        files[edit.name] = edit.apply(files.get(edit.name, ""))
        folder = edit.name.partition("/")[0]
        yield {name: squeezed(text) for name, text in files.items() if name.startswith(f"{folder}/")}


def starts_from(page: str) -> dict[str, str]:
    copied = re.search(r"(?:part in .*(\d); do )?cp docs/tutorial/steps/part-(\d?)", page)
    return step(f"part-{copied[1] or copied[2]}") if copied else {}


@pytest.mark.parametrize("part", BUILT)
def test_the_code_of_a_part_is_its_program(part: str) -> None:
    page = page_of(part)
    *_, written = states(without_solutions(page), starts_from(page))
    assert written == step(f"part-{part}")


@pytest.mark.parametrize("part", BUILT)
def test_the_solution_of_a_part_is_python(part: str) -> None:
    page = page_of(part)
    *_, solved = states(page, starts_from(page))
    assert solved != step(f"part-{part}"), "the exercise changes the program"
    for name, text in solved.items():
        assert ast.parse(text) if name.endswith(".py") else text


@pytest.mark.slow
def test_the_contribution_of_part_7_passes_its_test(tmp_path: Path) -> None:
    for folder in ("ccm", "tests/unit/hetzner"):
        shutil.copytree(TREE / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    name = "tests/unit/hetzner/test_hetzner_instances.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name, "-k", "placement_group"]
    results = []
    test, *changes = edits_in(page_of("7"))
    for edits in ([test], changes):
        for edit in edits:
            file = tmp_path / edit.name
            file.write_text(edit.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        done = subprocess.run(command, cwd=tmp_path, check=False, timeout=120, capture_output=True, text=True)
        results.append(done.returncode)
    assert results == [1, 0], done.stdout


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.stem)
def test_functions_that_a_part_links_to_exist(page: Path) -> None:
    for name, target in re.findall(r"\[`([\w.]+)`\]\(([^)#]+\.py)\)", page.read_text(encoding="utf-8")):
        tree = ast.parse((page.parent / target).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
        assert name.rpartition(".")[2] in defined, f"{name} in {target}"

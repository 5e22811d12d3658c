import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).resolve().parents[2]
PROJECTS = {
    path.parent: tomllib.loads(path.read_text())["project"] for path in TREE.glob("packages/*/pyproject.toml")
}
OURS = {
    source.name: project["name"] for folder, project in PROJECTS.items() for source in folder.glob("src/*")
}
OURS |= {"ccm": "ccm-from-scratch"}
INSTALLED = {module: set(map(canonicalize_name, names)) for module, names in packages_distributions().items()}


def imported(source: Path) -> Iterator[tuple[Path, str]]:
    """The top-level modules that files import, at whatever level."""
    for file in source.rglob("*.py"):
        if "dist-packages" in file.parts:  # of a machine's own Python
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield file, str(node.module).partition(".")[0]


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_it_imports_only_what_it_names(folder: Path) -> None:
    project = PROJECTS[folder]
    extras = project.get("optional-dependencies", {}).values()
    texts = [*project.get("dependencies", ()), *(text for extra in extras for text in extra)]
    named = {canonicalize_name(Requirement(text).name) for text in texts} | {project["name"]}
    if "pytest11" in project.get("entry-points", {}):
        named |= {"pytest"}  # it loads the plugin
    for file, module in imported(folder / "src"):
        if module not in sys.stdlib_module_names:
            provided_by = {OURS[module]} if module in OURS else INSTALLED.get(module, set())
            assert provided_by & named, f"{file.relative_to(TREE)} imports {module}"

"""Which folders of tests can be skipped: no file that they use has changed since they passed.

A stamp is a hash of these files. Tests use the files of their folder, every module of ours that they import
or start with ``-m``, and the data beside those modules. Tests of the product may also read its charts,
manifests and guides. Some use all sources: they build images or a release, start an environment, or check
every file.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

_USES_ALL = (
    *(f"packages/{name}/tests" for name in ("image", "release")),
    *(f"tests/{name}" for name in ("judges", "packages", "unit/bench", "unit/docs")),
)
_NOT_IN_ENVIRONMENTS = ("bench/", "packages/release/")
"""Sources that tests in environments don't use, unless they import them."""
_ENVIRONMENTS = ("packages/environment/tests", "tests/e2e")
_SHARED = ("conftest.py", "pyproject.toml", "requirements.lock")
_OF_TESTS = re.compile(r"(?:packages/[^/]+/)?tests/")
_FOLDER = re.compile(r"packages/[^/]+/tests(?=/)|tests/(?:unit/)?[^/]+(?=/)")
_SOURCES = re.compile(r"packages/[^/]+/src/")
_IMPORT = re.compile(r"\bfrom ([\w.]+) import (\([^)]*\)|.*)|\bimport ([\w.]+)|-m\W+([\w.]+)|(\w+(?:\.\w+)+)")
"""Matches import statements, ``-m MODULE`` and names with dots, even in strings: some tests contain whole
programs, and some modules are imported by their name, or run by the name of their file."""
_KEPT_SECONDS = 30 * 86400.0


def stamps(root: Path) -> dict[str, str]:
    """The stamp of each folder of tests; empty where git can't list the clone's files."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    contents = {}
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file():
            contents[name] = (root / name).read_bytes()
    return {folder: _digest(contents, files) for folder, files in used(contents).items()}


def used(contents: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The files that each folder of tests uses."""
    sources = {name for name in contents if not _OF_TESTS.match(name)}
    of_product = {name for name in sources if not name.startswith("packages/") and not name.endswith(".py")}
    in_environments = {name for name in sources if not name.startswith(_NOT_IN_ENVIRONMENTS)}
    imports = _imports(contents)
    found = {}
    for folder in {match[0] for name in contents if (match := _FOLDER.match(name))}:
        prefix = f"{folder.removesuffix('/tests')}/"  # also the sources of a distribution
        own = {name for name in contents if name.startswith(prefix)}
        if not any("/test_" in name for name in own):
            continue  # helpers of other folders
        files = _closure(contents, imports, own)
        if folder in _ENVIRONMENTS:
            files |= in_environments
        elif folder in _USES_ALL:
            files |= sources
        elif folder.startswith("tests/"):
            files |= of_product
        found[folder] = files
    return found


def _imports(contents: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The files that each Python file imports. Tests also import helpers by the name of their file alone."""
    modules = defaultdict[str, set[str]](set)
    texts = {name: text.decode(errors="replace") for name, text in contents.items() if name.endswith(".py")}
    for name in texts:
        modules[_module(name)].add(name)
        if _OF_TESTS.match(name) and not name.endswith("conftest.py"):
            modules[Path(name).stem].add(name)
    return {
        name: set().union(*(modules.get(module, ()) for module in _imported(name, text)))
        for name, text in texts.items()
    }


def _closure(contents: Mapping[str, bytes], imports: Mapping[str, set[str]], own: set[str]) -> set[str]:
    """Files, all modules that they import, and the data beside those."""
    found, left = set(own), [*own]
    while left:
        new = imports.get(left.pop(), set()) - found
        found |= new
        left += new
    folders = {match[0] for name in found if (match := _SOURCES.match(name))}
    data = {name for name in contents if (match := _SOURCES.match(name)) and match[0] in folders}
    return found | {name for name in data if not name.endswith(".py")} | {*_SHARED} & contents.keys()


def _imported(name: str, text: str) -> Iterable[str]:
    """What a file may import: modules, their packages, and names that may be modules."""
    package = _module(name) if name.endswith("__init__.py") else _module(name).rpartition(".")[0]
    for origin, names, imported, started, dotted in _IMPORT.findall(text):
        level = len(origin) - len(origin.lstrip("."))
        parents = package.split(".")[: 1 - level or None] if level else []
        base = ".".join(filter(None, [*parents, origin[level:]]))
        inside = (f"{base}.{each}" for each in re.findall(r"\w+", names))
        beside = f"{package}.{dotted.removesuffix('.py')}" if dotted.endswith(".py") else ""
        programs = (started, f"{started}.__main__") if started else ()
        for module in filter(None, (base, imported, dotted, beside, *programs, *inside)):
            parts = module.split(".")
            # The part before the first dot may be a variable, unless it is imported.
            first = 2 if module == dotted else 1
            yield from (".".join(parts[:end]) for end in range(first, len(parts) + 1))


def _module(name: str) -> str:
    return _SOURCES.sub("", name).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _digest(contents: Mapping[str, bytes], files: Iterable[str]) -> str:
    # Some tests are skipped without root.
    digest = hashlib.sha256(f"{sys.version}\0{os.geteuid()}".encode())
    for name in sorted(files):
        digest.update(f"{name}\0{len(contents[name])}\0".encode() + contents[name])
    return digest.hexdigest()[:16]


def unchanged(passed: Path, layer: str, stamped: Mapping[str, str]) -> list[str]:
    """Folders that passed with these stamps."""
    return sorted(folder for folder, stamp in stamped.items() if _note(passed, layer, folder, stamp).exists())


def keep(passed: Path, layer: str, stamped: Mapping[str, str], report: Path) -> None:
    """Note which folders passed, after a run that was not interrupted."""
    passed.mkdir(parents=True, exist_ok=True)
    for note in passed.iterdir():
        if note.stat().st_mtime < time.time() - _KEPT_SECONDS:
            note.unlink()
    failed = [
        str(case.get("classname", "")).replace(".", "/")
        for case in ET.parse(report).iter("testcase")  # noqa: S314  our own
        if case.find("failure") is not None or case.find("error") is not None
    ]
    for folder, stamp in stamped.items():
        if not any(name.startswith(f"{folder}/") for name in failed):
            _note(passed, layer, folder, stamp).touch()


def _note(passed: Path, layer: str, folder: str, stamp: str) -> Path:
    return passed / f"{layer}-{folder.replace('/', '-')}-{stamp}"

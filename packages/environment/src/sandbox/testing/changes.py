"""Which test files can be skipped: no file that they use has changed since they passed.

A test file uses its helpers, every module of ours that they import or start with ``-m``, the data beside
those modules, and the folders of the product that they name. Some test files use all sources: they build
images or a release, start an environment, or check every file.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from sandbox.testing.layers import Layer

_USES_ALL = re.compile(r"packages/(image|release)/tests/|tests/(judges|packages|unit/bench|unit/docs)/")
_NOT_IN_ENVIRONMENTS = re.compile(r"bench/|packages/release/|.*\.md")
"""Sources that tests in environments don't use, unless they name them."""
_SHARED = {"conftest.py", "pyproject.toml", "requirements.lock"}
_OF_TESTS = re.compile(r"(?:packages/[^/]+/)?tests/")
_ALWAYS = re.compile(rf"{_OF_TESTS.pattern}|.*\.md|{'|'.join(_SHARED)}")
"""Matches the files outside its distribution that belong to a test file: helpers, pages and packages."""
_TEST = re.compile(r"(?:packages/[^/]+/)?tests/.*\btest_\w+\.py")
_SOURCES = re.compile(r"packages/[^/]+/src/")
_ROOT = re.compile(r"packages/[^/]+/(?:src|tests)/|tests/(?:unit/)?[^/]+/|[^/]+/?")
"""Matches the folder whose data its modules use, or a single file."""
_IMPORT = re.compile(
    r"""\bfrom ([\w.]+) import (\([^)]*\)|.*)|\bimport ([\w.]+)|-m\W+([\w.]+)|["'/](\w+(?:\.\w+)+)"""
)
"""Matches import statements, ``-m MODULE`` and strings that begin with dotted names: some tests contain whole
programs, and some modules are imported by their name, or run by the name of their file."""
_SMOKE = re.compile(r"@pytest\.mark\.smoke\n(?:async )?def (\w+)")
_URL = re.compile(r"https?://\S+")
_KEPT_SECONDS = 30 * 86400.0


class Stamps(NamedTuple):
    """Hashes of the files that a test file uses, and what it has."""

    own: str  # the hash of those in its distribution
    every: str  # the hash of all of them
    marks: frozenset[str]  # the pytest marks that its text names
    smoke: Sequence[str]  # the names of its smoke tests


class Selected(NamedTuple):
    """Tests of a file to run."""

    names: Sequence[str]  # for pytest
    stamps: Sequence[str]  # which are kept if they pass


def stamps(root: Path) -> dict[str, Stamps]:
    """The stamps of each test file; empty where git can't list the clone's files."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    contents = {}
    for name in filter(None, listed.decode().split("\0")):
        if (root / name).is_file():
            contents[name] = (root / name).read_bytes()
    hashes = {name: hashlib.sha256(f"{name}\0".encode() + text).digest() for name, text in contents.items()}
    used = uses(contents)
    return {
        name: Stamps(
            _digest(hashes, own(used, name)),
            _digest(hashes, every(used, name)),
            frozenset(re.findall(r"mark\.(\w+)", contents[name].decode(errors="replace"))),
            _SMOKE.findall(contents[name].decode(errors="replace")),
        )
        for name in used
        if _TEST.fullmatch(name)
    }


def select(stamped: Mapping[str, Stamps], passed: Container[str], layer: Layer) -> dict[str, Selected]:
    """The test files of a layer to run; fast tests also run if other distributions changed."""
    selected = {}
    for name, stamp in sorted(stamped.items()):
        if layer.any_of and not layer.any_of & stamp.marks:
            continue
        if (stamp.own if layer.any_of else stamp.every) not in passed:
            selected[name] = Selected([name], [stamp.own, stamp.every])
        elif stamp.smoke and stamp.every not in passed:
            selected[name] = Selected([f"{name}::{test}" for test in stamp.smoke], [stamp.every])
    return selected


def every(
    used: Mapping[str, set[str]], test: str, belongs: Callable[[str], bool] = lambda _: True
) -> set[str]:
    """All files that a test file uses, directly or through others for which ``belongs`` is true."""
    found, left = {test}, [test]
    while left:
        new = {name for name in used.get(left.pop(), set()) - found if belongs(name)}
        found |= new
        left += new
    return found


def own(used: Mapping[str, set[str]], test: str) -> set[str]:
    """The files that a test file uses, without the sources of other distributions.

    End-to-end tests belong to no distribution: they use nearly all sources.
    """
    package = None if test.startswith("tests/e2e/") else _package(test)
    return every(used, test, lambda name: bool(_ALWAYS.match(name)) or _package(name) == package)


def uses(contents: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The files that each Python file uses itself."""
    sources = {name for name in contents if not _OF_TESTS.match(name)}
    in_environments = {name for name in sources if not _NOT_IN_ENVIRONMENTS.match(name)}
    texts = {name: text.decode(errors="replace") for name, text in contents.items() if name.endswith(".py")}
    data, modules = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for name in contents.keys() - texts.keys():
        data[_root(name)].add(name)
    for name in texts:
        modules[_module(name)].add(name)
        if _OF_TESTS.match(name) and not name.endswith("conftest.py"):
            modules[Path(name).stem].add(name)  # tests import helpers by the name of their file alone
    named = re.compile(rf"""(?<=["'/])({"|".join(re.escape(root.rstrip("/")) for root in data)})(?=["'/])""")
    found = {}
    for name, text in texts.items():
        roots = (root for match in named.findall(_URL.sub("", text)) for root in (match, f"{match}/"))
        files = data.get(_root(name), set()).union(*(data.get(root, ()) for root in roots))
        files.update(*(modules.get(module, ()) for module in _imported(name, text)))
        if "pkgutil" in text:  # it imports all modules of a package
            files |= {module for module in texts if module.startswith(f"{Path(name).parent}/")}
        if _TEST.fullmatch(name):
            files |= _SHARED | {f"{folder}/conftest.py" for folder in Path(name).parents}
            files |= {source for source in sources if _package(source) == _package(name) != ""}
            if _USES_ALL.match(name):
                files |= sources
            elif name.startswith("tests/e2e/"):
                files |= in_environments
        found[name] = files & contents.keys()
    return found | {"conftest.py": set()}  # a test uses few of its fixtures


def _imported(name: str, text: str) -> Iterable[str]:
    """What a file may import: modules, their packages, and names that may be modules."""
    package = _module(name) if name.endswith("__init__.py") else _module(name).rpartition(".")[0]
    for origin, names, imported, started, dotted in _IMPORT.findall(text):
        level = len(origin) - len(origin.lstrip("."))
        parents = package.split(".")[: 1 - level or None] if level else []
        base = ".".join([*parents, origin[level:]]).strip(".")
        inside = (f"{base}.{each}" for each in re.findall(r"\w+", names))
        beside = f"{package}.{dotted.removesuffix('.py')}" if dotted.endswith(".py") else ""
        programs = (started, f"{started}.__main__") if started and _OF_TESTS.match(name) else ()
        for module in filter(len, (base, imported, dotted, beside, *programs, *inside)):
            parts = module.split(".")
            # The part before the first dot may be a variable, unless it is imported.
            first = 2 if module == dotted else 1
            yield from (".".join(parts[:end]) for end in range(first, len(parts) + 1))


def _module(name: str) -> str:
    return _SOURCES.sub("", name).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _root(name: str) -> str:
    match = _ROOT.match(name)
    return match[0] if match else ""


def _package(name: str) -> str:
    """The folder of a distribution in ``packages/``; empty for the product."""
    folder, _, rest = name.partition("/")
    return rest.partition("/")[0] if folder == "packages" else ""


def _digest(hashes: Mapping[str, bytes], files: Iterable[str]) -> str:
    # Some tests are skipped without root.
    digest = hashlib.sha256(f"{sys.version}\0{os.geteuid()}".encode())
    for name in sorted(files):
        digest.update(hashes[name])
    return digest.hexdigest()[:16]


def passed(folder: Path, layer: str) -> set[str]:
    """The stamps that were kept."""
    return {stamp for run in folder.glob(f"{layer}-*") for stamp in run.read_text().split()}


def keep(folder: Path, layer: str, selected: Mapping[str, Selected], report: Path) -> None:
    """Add the stamps of test files, except those with a failed test in pytest's report."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in folder.iterdir():
        if run.stat().st_mtime < time.time() - _KEPT_SECONDS:
            run.unlink()
    failed = [
        f"{case.get('classname', '')}."
        for case in ET.parse(report).iter("testcase")  # noqa: S314  our own
        if case.find("failure") is not None or case.find("error") is not None
    ]
    stamps = {
        stamp
        for name, tests in selected.items()
        if not any(case.startswith(f"{_module(name)}.") for case in failed)
        for stamp in tests.stamps
    }
    (folder / f"{layer}-{uuid.uuid4().hex}").write_text("\n".join(stamps))

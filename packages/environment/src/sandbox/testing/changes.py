"""Which folders of tests can be skipped: no file that they use has changed since they passed.

A stamp is a hash of these files. A distribution's tests use its own files, every module of ours that they
import or start with ``-m``, and the data beside those modules. Some use all sources: they build images or a
release, or start programs of every distribution.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

TESTS = "tests"
_USES_ALL = (TESTS, *(f"packages/{name}/tests" for name in ("environment", "image", "release")))
_SHARED = ("conftest.py", "pyproject.toml", "requirements.lock")
_OF_TESTS = re.compile(r"(?:packages/[^/]+/)?tests/")
_SOURCES = re.compile(r"packages/[^/]+/src/")
_IMPORT = re.compile(r"\bfrom ([\w.]+) import (\([^)]*\)|.*)|\bimport ([\w.]+)|-m\W+([\w.]+)")
"""Matches import statements and ``-m MODULE``, even in strings, because some tests contain whole programs."""
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
    modules = {_module(name): name for name in contents if name.endswith(".py")}
    sources = {name for name in contents if not _OF_TESTS.match(name)}
    found = {}
    for folder in {match[0].rstrip("/") for name in contents if (match := _OF_TESTS.match(name))}:
        parent = folder.removesuffix(TESTS) or f"{TESTS}/"
        files = _closure(contents, modules, {name for name in contents if name.startswith(parent)})
        found[folder] = files | (sources if folder in _USES_ALL else set())
    return found


def _closure(contents: Mapping[str, bytes], modules: Mapping[str, str], own: set[str]) -> set[str]:
    """Files, all modules that they import, and the data beside those."""
    found, left = set(own), [name for name in own if name.endswith(".py")]
    while left:
        for module in _imported(contents[left.pop()].decode(errors="replace")):
            name = modules.get(module)
            if name and name not in found:
                found.add(name)
                left.append(name)
    folders = {match[0] for name in found if (match := _SOURCES.match(name))}
    data = {name for name in contents if (match := _SOURCES.match(name)) and match[0] in folders}
    return found | {name for name in data if not name.endswith(".py")} | {*_SHARED} & contents.keys()


def _imported(text: str) -> Iterable[str]:
    """What a text may import: modules, their packages, and names that may be modules."""
    for package, names, imported, started in _IMPORT.findall(text):
        inside = (f"{package}.{name}" for name in re.findall(r"\w+", names))
        for module in filter(None, (package, imported, started, started and f"{started}.__main__", *inside)):
            parts = module.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


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

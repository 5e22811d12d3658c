"""What a run of the tests leaves: which versions it ran with, kept by the content of the tested tree.

``./dev test`` lets pytest write JUnit's XML. Some tests report the versions that they ran with as properties
(:data:`RAN`), by pytest's ``record_property``. When all layers have passed, and the tree was and is what was
committed, the XML becomes a record. ``./dev test --kubernetes VERSION`` makes a record of only the tests that
run Kubernetes. A release takes the records of its tree and claims nothing else.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from release.errors import ReleaseError

RAN = "ran with "
"""The prefix of a JUnit property that records a version. One of :data:`SUBJECTS` follows the prefix."""

SUBJECTS = ("Kubernetes", "k3s", "containerd", "Python", "Python in the image", "Helm")

KEPT = 50
"""The maximum number of records in the cache. A record has a few hundred bytes."""


@dataclass(frozen=True)
class Record:
    """A run in which every layer of tests passed."""

    tree: str  # of the commit that was tested, as git names it
    servers: str  # what the sandbox's servers were: ``machines`` or ``hollow``
    passed: int  # number of tests
    skipped: int  # number of tests that could not run there
    versions: Mapping[str, str]  # what ran, by its subject
    tests: str = "all"  # which ones ran: ``all``, or ``kubernetes``: those that run Kubernetes


def read_run(files: Iterable[Path], tree: str, servers: str, kubernetes: str = "") -> Record:
    """The record of a successful run, from pytest's JUnit XML of its layers.

    ``servers`` are ``machines`` or ``hollow``; ``kubernetes`` is the version if only tests that run it ran.
    ReleaseError if a property names an unknown subject, or tests disagree about a version.
    """
    cases = [case for file in files for case in ET.parse(file).getroot().iter("testcase")]  # noqa: S314 - our own
    skipped = [case for case in cases if case.find("skipped") is not None]
    versions: dict[str, str] = {}
    for case in cases:
        for subject, version in _ran(case):
            if subject not in SUBJECTS or versions.setdefault(subject, version) != version:
                raise ReleaseError(
                    f"the test {case.get('name')} ran with {subject} {version}, but earlier tests ran with "
                    f"these versions: {versions}"
                )
    if kubernetes and versions.get("Kubernetes") != kubernetes:
        raise ReleaseError(
            f"Kubernetes {kubernetes} was requested, but the tests ran with Kubernetes "
            f"{versions.get('Kubernetes')}"
        )
    tests = "kubernetes" if kubernetes else "all"
    passed = len(cases) - len(skipped)
    return Record(tree, servers, passed, len(skipped), dict(sorted(versions.items())), tests)


def _ran(case: ET.Element) -> Iterable[tuple[str, str]]:
    for each in case.iter("property"):
        name = each.get("name", "")
        if name.startswith(RAN):
            yield name.removeprefix(RAN), each.get("value", "")


def keep(record: Record, folder: Path) -> Path:
    """Writes a record beside those of other trees and of other versions; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{record.tree}-python-{_in_a_name(record, 'Python')}"
    if record.tests == "kubernetes":
        name = f"{name}-kubernetes-{_in_a_name(record, 'Kubernetes')}"
    path = folder / f"{name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(record), sort_keys=True, indent=1) + "\n")
    partial.replace(path)
    for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
        old.unlink()
    return path


def _in_a_name(record: Record, subject: str) -> str:
    return re.sub(r"[^0-9A-Za-z.]", "", record.versions.get(subject, "unknown"))


def find(folder: Path, tree: str) -> list[Record]:
    """All records of a tree."""
    paths = sorted(folder.glob(f"{tree}-python-*.json"))
    return [Record(**json.loads(path.read_text())) for path in paths]


def table(records: Iterable[Record]) -> str:
    """What the records prove, for a person: a table in Markdown, or the sentence that nothing was tested."""
    found = list(records)
    if not found:
        return (
            "There is no record of a test run of this commit. To create a record, run `./dev test all` "
            "on a clean clone."
        )
    rows = [f"| {subject} | {_versions(found, subject) or 'not run'} |" for subject in SUBJECTS]
    runs = [
        f"- {_TESTS[one.tests]}: {one.passed} tests passed, and {one.skipped} tests were skipped. The "
        f"versions were Kubernetes {one.versions.get('Kubernetes', 'not run')} and Python "
        f"{one.versions.get('Python', 'unknown')}. The sandbox's servers were {_SERVERS[one.servers]}."
        for one in found
    ]
    head = ["| component | versions with which the tests passed |", "|---|---|"]
    return "\n".join([*head, *rows, "", *runs, "", _HOW])


_TESTS = {"all": "All tests", "kubernetes": "The tests that run Kubernetes"}
_SERVERS = {"machines": "Linux machines", "hollow": "simulated, with hollow nodes"}
_HOW = (
    "The tests run upstream Kubernetes, which the sandbox's stand-in for k3s starts. Other versions may "
    "work, but were not tested."
)


def _versions(records: Iterable[Record], subject: str) -> str:
    found = {record.versions[subject] for record in records if subject in record.versions}
    return ", ".join(sorted(found, key=lambda version: [*map(int, re.findall(r"[0-9]+", version))]))

import io
import os
import subprocess
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from sandbox.commands.test import run_changed
from sandbox.console import Steps
from sandbox.testing import changes
from sandbox.testing.layers import UNIT

FILES = {
    "conftest.py": "",
    "docs/page.md": "",
    "ccm/go.py": "from .deep import nothing",
    "ccm/deep/__init__.py": "MAIN = 'ccm.deep.named:main'",
    "ccm/deep/named.py": "run(Path(__file__).with_name('file.py'))",
    "ccm/deep/file.py": "",
    "ccm/other.py": "",
    "packages/low/src/low/table.json": "",
    "packages/low/src/low/part.py": "",
    "packages/low/tests/test_low.py": "from low import part",
    "packages/high/src/high/__init__.py": "from ccm import (\n    go,\n)",
    "packages/high/src/high/__main__.py": "import low.part",
    "packages/high/tests/test_high.py": "PROGRAM = 'import high'",
    "packages/start/src/start.py": "",
    "packages/start/tests/test_start.py": "run(['python', '-m', 'high'])",
    "packages/image/src/image/__init__.py": "",
    "packages/image/tests/test_image.py": "",
    "packages/release/src/release.py": "",
    "tests/e2e/test_it.py": "",
    "tests/e2e/helper.py": "",
    "tests/unit/hetzner/helper.py": "from ccm import go",
    "tests/unit/kube/test_kube.py": "from helper import anything",
}
LOW, HIGH, START = (f"packages/{name}/tests" for name in ("low", "high", "start"))
KUBE, E2E, IMAGE = "tests/unit/kube", "tests/e2e", "packages/image/tests"
ALL = (E2E, IMAGE)


@pytest.mark.parametrize(
    ("changed", "folders"),
    [
        ("conftest.py", {LOW, HIGH, START, KUBE, *ALL}),
        ("docs/page.md", {KUBE, *ALL}),
        ("ccm/other.py", {*ALL}),
        ("ccm/go.py", {HIGH, START, KUBE, *ALL}),
        ("ccm/deep/file.py", {HIGH, START, KUBE, *ALL}),
        ("packages/low/src/low/part.py", {LOW, HIGH, START, *ALL}),
        ("packages/low/src/low/table.json", {LOW, HIGH, START, *ALL}),
        ("packages/low/tests/test_low.py", {LOW}),
        ("packages/high/src/high/__main__.py", {HIGH, START, *ALL}),
        ("packages/start/src/start.py", {START, *ALL}),
        ("packages/release/src/release.py", {IMAGE}),
        ("tests/unit/hetzner/helper.py", {KUBE}),
        ("tests/e2e/helper.py", {KUBE, E2E}),  # which one is imported is not known
        ("tests/e2e/test_it.py", {E2E}),
    ],
)
def test_tests_of_changed_files(changed, folders):
    used = changes.used({name: text.encode() for name, text in FILES.items()})
    assert {folder for folder, files in used.items() if changed in files} == folders


@pytest.fixture
def clone(tmp_path):
    root = tmp_path / "clone"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, timeout=60)
    return SimpleNamespace(root=root, cache=tmp_path / "cache")


class Layers:
    """Runs no tests: notes of which folders they were asked for, and says how they ended."""

    nightly, prepared = False, ""

    def __init__(self, clone, report):
        self.clone, self.asked, self.code, self.failed, self._report = clone, [], 0, "", report

    def layer(self, _layer, given):
        self.asked.append([*given])
        case = f'<testcase classname="{self.failed}"><failure/></testcase>' if self.failed else ""
        self._report.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
        return self.code

    def reports(self):
        return [self._report]


def test_passed_tests_are_skipped(clone, tmp_path):
    layers = Layers(clone, tmp_path / "0.xml")

    def run(*given, every=False):
        layers.asked.clear()
        code = run_changed(layers, Steps(Console(file=io.StringIO())), UNIT, given, every=every)
        return code, layers.asked

    assert run() == (0, [[]])
    assert run() == (0, [])
    assert run(every=True) == (0, [[]])
    assert run("-k", "x") == (0, [["-k", "x"]])
    (clone.root / "packages/low/tests/test_low.py").write_text("from low import part  # changed")
    assert run() == (0, [[LOW]])
    (clone.root / "ccm/go.py").write_text("changed")
    layers.code, layers.failed = 1, "packages.high.tests.test_high"
    assert run() == (1, [[HIGH, IMAGE, START, E2E, KUBE]])
    layers.code, layers.failed = 2, ""  # interrupted: nothing is known
    assert run() == (2, [[HIGH]])
    layers.code = 5  # it has no tests of this layer
    assert run() == (0, [[HIGH]])
    assert run() == (0, [])
    old = time.time() - 31 * 86400
    for note in (clone.cache / "passed").iterdir():
        os.utime(note, (old, old))
    run(every=True)
    assert len(list((clone.cache / "passed").iterdir())) == 6


def test_without_git_all_tests_run(clone, tmp_path):
    (clone.root / ".git").rename(clone.root / "gone")
    layers = Layers(clone, tmp_path / "0.xml")
    for _ in range(2):
        assert run_changed(layers, Steps(Console(file=io.StringIO())), UNIT, [], every=False) == 0
    assert layers.asked == [[], []]

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
from sandbox.testing.layers import PROCESSES, UNIT

FILES = {
    "conftest.py": "from ccm import other",
    "docs/page.md": "",
    "charts/values.yaml": "",
    "ccm/go.py": "from .deep import nothing",
    "ccm/deep/__init__.py": "MAIN = 'ccm.deep.named:main'",
    "ccm/deep/named.py": "run(Path(__file__).with_name('file.py'))",
    "ccm/deep/file.py": "",
    "ccm/other.py": "",
    "packages/low/src/low/table.json": "",
    "packages/low/src/low/__init__.py": "pkgutil.iter_modules(__path__)",
    "packages/low/src/low/part.py": "",
    "packages/low/tests/test_low.py": "from low import part",
    "packages/high/src/high/__init__.py": "from ccm import (\n    go,\n)",
    "packages/high/src/high/__main__.py": "import low",
    "packages/high/tests/test_high.py": "mark.slow; PROGRAM = 'import high'",
    "packages/start/src/start.py": "",
    "packages/start/tests/conftest.py": "",
    "packages/start/tests/test_start.py": "mark.slow\n@pytest.mark.smoke\ndef test_run(): ['-m', 'high']",
    "packages/image/src/image/__init__.py": "",
    "packages/image/tests/test_image.py": "",
    "packages/release/src/release.py": "",
    "tests/e2e/test_it.py": "mark.slow\n@pytest.mark.smoke\nasync def test_it(): ...",
    "tests/e2e/test_pages.py": "ROOT / 'docs'",
    "tests/e2e/helper.py": "",
    "tests/unit/hetzner/helper.py": "from ccm import go",
    "tests/unit/kube/test_kube.py": "from helper import anything; mark.slow",
    "tests/unit/kube/test_chart.py": "'charts/values.yaml', 'https://example.com/docs/'",
}
LOW, HIGH, START = (f"packages/{name}/tests/test_{name}.py" for name in ("low", "high", "start"))
IMAGE = "packages/image/tests/test_image.py"
KUBE, CHART = "tests/unit/kube/test_kube.py", "tests/unit/kube/test_chart.py"
IT, PAGES = "tests/e2e/test_it.py", "tests/e2e/test_pages.py"
ALL = (IMAGE, IT, PAGES)
EVERY = [HIGH, IMAGE, LOW, START, IT, PAGES, CHART, KUBE]


@pytest.mark.parametrize(
    ("changed", "own", "others"),
    [
        ("conftest.py", {*EVERY}, set()),
        ("docs/page.md", {PAGES, IMAGE}, set()),
        ("charts/values.yaml", {CHART}, {*ALL}),
        ("ccm/other.py", set(), {*ALL}),
        ("ccm/go.py", {KUBE}, {HIGH, START, *ALL}),
        ("ccm/deep/file.py", {KUBE}, {HIGH, START, *ALL}),
        ("packages/low/src/low/part.py", {LOW}, {HIGH, START, *ALL}),
        ("packages/low/src/low/table.json", {LOW}, {HIGH, START, *ALL}),
        ("packages/low/tests/test_low.py", {LOW}, set()),
        ("packages/high/src/high/__main__.py", {HIGH}, {START, *ALL}),
        ("packages/start/tests/conftest.py", {START}, set()),
        ("packages/release/src/release.py", set(), {IMAGE}),
        ("tests/unit/hetzner/helper.py", {KUBE}, set()),
        ("tests/e2e/helper.py", {KUBE}, set()),  # which one is imported is not known
        ("tests/e2e/test_it.py", {IT}, set()),
    ],
)
def test_tests_of_changed_files(changed, own, others):
    used = changes.uses({name: text.encode() for name, text in FILES.items()})
    assert {test for test in EVERY if changed in changes.own(used, test)} == own
    assert {test for test in EVERY if changed in changes.every(used, test)} == own | others


@pytest.fixture
def clone(tmp_path):
    root = tmp_path / "clone"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True, timeout=60)
    return SimpleNamespace(root=root, cache=tmp_path / "cache")


class Layers:
    """Runs no tests: notes which files they were asked for, and says how they ended."""

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


@pytest.fixture
def layers(clone, tmp_path):
    return Layers(clone, tmp_path / "0.xml")


@pytest.fixture
def run(layers):
    def run(*given, layer=UNIT, every=False):
        layers.asked.clear()
        code = run_changed(layers, Steps(Console(file=io.StringIO())), layer, given, every=every)
        return code, layers.asked

    return run


def test_passed_tests_are_skipped(clone, layers, run):
    assert run() == (0, [EVERY])
    assert run() == (0, [])
    assert run(every=True) == (0, [EVERY])
    layers.nightly = True
    assert run() == (0, [EVERY])
    layers.nightly = False
    assert run() == (0, [])
    assert run("-k", "x") == (0, [["-k", "x"]])
    (clone.root / LOW).write_text("from low import part  # changed")
    assert run() == (0, [[LOW]])
    (clone.root / "ccm/go.py").write_text("changed")
    layers.code, layers.failed = 1, "packages.high.tests.test_high.TestClass"
    assert run() == (1, [[HIGH, IMAGE, START, IT, PAGES, KUBE]])
    layers.code, layers.failed = 2, ""  # interrupted: nothing is known
    assert run() == (2, [[HIGH]])
    layers.code = 5  # it has no tests of this layer
    assert run() == (0, [[HIGH]])
    assert run() == (0, [])
    old = time.time() - 31 * 86400
    for note in (clone.cache / "passed").iterdir():
        os.utime(note, (old, old))
    run(every=True)
    assert len(list((clone.cache / "passed").iterdir())) == 1


def test_slow_tests_of_other_distributions_run_their_smoke_tests(clone, layers, run):
    assert run(layer=PROCESSES) == (0, [[HIGH, START, IT, KUBE]])
    smoke = [f"{START}::test_run", f"{IT}::test_it"]
    (clone.root / "packages/high/src/high/__main__.py").write_text("")
    layers.code, layers.failed = 1, "packages.high.tests.test_high"
    assert run(layer=PROCESSES) == (1, [[HIGH, *smoke]])
    layers.code, layers.failed = 0, ""
    assert run(layer=PROCESSES) == (0, [[HIGH]])
    assert run(layer=PROCESSES) == (0, [])
    (clone.root / "ccm/go.py").write_text("changed")
    assert run(layer=PROCESSES) == (0, [[*smoke, KUBE]])
    assert run(layer=PROCESSES, every=True) == (0, [[HIGH, START, IT, KUBE]])


def test_without_git_all_tests_run(clone, run):
    (clone.root / ".git").rename(clone.root / "gone")
    assert run() == (0, [[]])
    assert run() == (0, [[]])

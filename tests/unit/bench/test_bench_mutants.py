"""How changes to the code are made in a copy, counted and told."""

from __future__ import annotations

import ast
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.lab.report import BenchError
from bench.mutation import kept
from bench.mutation.engine import copy, mutants_of
from bench.mutation.judges import JUDGES
from bench.mutation.verdict import Change, Equivalents, Mutant, judge

TREE = Path(__file__).parents[3]
SCRIPT = TREE / "bench" / "mutants.py"
COMMAND = runpy.run_path(str(SCRIPT))
MODULE = "ccm/sample.py"


def mutant(status: str, becomes: str = "return a - b") -> Mutant:
    return Mutant(status, Change(MODULE, "add", 2, "return a + b", becomes))


def test_every_module_and_its_tests_are_there() -> None:
    for module, tests in JUDGES.items():
        assert (TREE / module).is_file(), module
        assert tests, module
        for test in tests:
            assert (TREE / test).exists(), test


def lines_of(module: str) -> dict[str, str]:
    """The lines of a module's functions as the table of reasons writes them, by class and name."""
    source = (TREE / module).read_text()
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = source.splitlines()[one.lineno - 1 : one.end_lineno]
                found[owner + one.name] = " ".join(line.strip() for line in lines)
    return found


def test_whatever_is_said_to_alter_nothing_is_a_change_of_a_line_that_is_there() -> None:
    for module, function, was, becomes in Equivalents.read(COMMAND["EQUIVALENTS"]).reasons:
        assert module in JUDGES
        assert was in lines_of(module).get(function, ""), (module, function, was)
        assert was != becomes


def test_what_no_test_noticed_survives_whatever_it_is_called() -> None:
    quiet = ["survived", "no tests", "suspicious", "not checked"]
    verdict = judge(
        MODULE, [mutant(one) for one in ("killed", "timeout", "segfault", *quiet)], Equivalents({})
    )
    assert (verdict.mutants, verdict.killed, verdict.timeouts, len(verdict.survivors)) == (7, 1, 2, 4)
    assert verdict.share == pytest.approx(400 / 7)


def test_three_per_cent_pass_and_more_fail() -> None:
    killed = [mutant("killed")] * 97
    for survivors, passed in ((3, True), (4, False)):
        verdict = judge(MODULE, [*killed, *[mutant("survived")] * survivors], Equivalents({}))
        assert [row.passed for row in COMMAND["rows"]([verdict], [])] == [passed, True]
    assert not COMMAND["rows"]([], ["a reason"])[0].passed


def test_what_alters_nothing_does_not_count_and_needs_its_reason(tmp_path: Path) -> None:
    (tmp_path / "table.toml").write_text(
        '[[reason]]\nwhy = "it is the same"\n'
        f'changes = [["{MODULE}", "add", "return a + b", "return b + a"], ["{MODULE}", "add", "x", "y"]]\n'
    )
    table = Equivalents.read(tmp_path / "table.toml")
    mutants = [mutant("killed"), mutant("survived", "return b + a")]
    verdict = judge(MODULE, mutants, table)
    assert (verdict.mutants, verdict.left_out, verdict.survivors) == (1, 1, ())
    assert table.unknown(mutants, [MODULE]) == [f"{MODULE} | add | x | y"]
    assert table.unknown(mutants, ["ccm/other.py"]) == [], "other modules were not looked at"
    noticed = [mutant("killed", "return b + a")]
    assert len(table.unknown(noticed, [MODULE])) == 2, "a test notices it: it does not belong there"


@pytest.mark.parametrize(
    ("was", "becomes", "left_out"),
    [
        ('raise Odd("it is Odd")', 'raise Odd("XXit is OddXX")', 1),
        ('raise Odd("it is Odd")', 'raise Odd("it is odd")', 1),
        ('raise Odd("it is Odd")', 'raise Odd("IT IS ODD")', 1),
        ('raise Odd("it is Odd")', "raise Odd(None)", 0),
        ('raise Odd(1, "it is Odd")', 'raise Odd(2, "it is Odd")', 0),
        ('kind = "Lease"', 'kind = "lease"', 0),
        ('kind = "Lease"', 'kind = "XXLeaseXX"', 0),
    ],
)
def test_the_spelling_of_sentences_is_left_out_and_that_of_words_is_not(
    was: str, becomes: str, left_out: int
) -> None:
    change = Change(MODULE, "add", 2, was, becomes)
    assert judge(MODULE, [Mutant("survived", change)], Equivalents({})).left_out == left_out


def test_a_module_is_named_by_the_end_of_its_path() -> None:
    chosen = COMMAND["chosen"]
    assert (
        chosen(["lease"])
        == chosen(["kube/lease.py"])
        == chosen(["./ccm/kube/lease.py"])
        == ["ccm/kube/lease.py"]
    )
    assert chosen([]) == list(JUDGES)
    with pytest.raises(BenchError, match="'ease' is the end of 0 modules' paths; there are: ccm/"):
        chosen(["ease"])


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A tree with one module, which one test judges."""
    root = tmp_path / "tree"
    for folder in ("ccm", "packages/one/src/one", "sandbox", "tests"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").touch()
    (root / MODULE).write_text(
        "log = None\n\n\nclass Sum:\n    def add(self, a, b):\n        # a comment\n        return a + b\n\n"
        "    def unseen(self):\n        log.info('words')\n        return 1\n"
    )
    (root / "conftest.py").write_text(
        "from hypothesis import settings\nsettings.register_profile('mutants')\n"
    )
    (root / "tests/test_sample.py").write_text(
        "from ccm.sample import Sum\n\n\ndef test_sum():\n    assert Sum().add(2, 2) == 4\n"
    )
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "requirements.lock").touch()
    return root


def changed(sample: Path, tmp_path: Path) -> list[Mutant]:
    (tmp_path / "copy").mkdir()
    copy(sample, tmp_path / "copy")
    return mutants_of(tmp_path / "copy", MODULE, ["tests/test_sample.py"])


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_was_kept_counts_until_anything_differs_that_it_follows_from(
    sample: Path, tmp_path: Path
) -> None:
    tests = ["tests/test_sample.py"]
    (sample / "ccm/other.py").write_text("ONE = 1\n")
    (sample / "ccm/stranger.py").write_text("ONE = 1\n")
    (sample / "tests/helper.py").write_text("from ccm import other\nimport one\n")
    (sample / "tests/test_sample.py").write_text("import helper\nfrom ccm.sample import Sum\n")
    key = kept.key(sample, MODULE, tests)
    found = [mutant("killed"), mutant("survived", "return b + a")]
    kept.write(tmp_path / "cache", key, found)
    (sample / "ccm/stranger.py").write_text("ONE = 2\n")
    assert kept.read(tmp_path / "cache", kept.key(sample, MODULE, tests)) == found
    assert kept.read(tmp_path / "cache", "another") is None
    assert kept.key(sample, MODULE, ["tests/helper.py"]) != key
    member = "packages/one/src/one/__init__.py"
    for name in (MODULE, *tests, "tests/helper.py", "conftest.py", "ccm/other.py", member, "pyproject.toml"):
        before = (sample / name).read_text()
        (sample / name).write_text(before + "# changed\n")
        assert kept.key(sample, MODULE, tests) != key, name
        (sample / name).write_text(before)
    (sample / "ccm/other.py").write_text("from importlib import import_module\n")
    names = kept.key(sample, MODULE, tests)
    (sample / "ccm/stranger.py").write_text("ONE = 3\n")
    assert kept.key(sample, MODULE, tests) != names, "it may import anything that lies beside it"
    (sample / "ccm/data.json").write_text("{}")
    with_data = kept.key(sample, MODULE, tests)
    (sample / "ccm/data.json").write_text("[]")
    assert kept.key(sample, MODULE, tests) != with_data


def test_only_the_newest_results_are_kept(tmp_path: Path) -> None:
    for number in range(kept.MOST + 2):
        kept.write(tmp_path, str(number), [mutant("killed")])
        os.utime(tmp_path / f"{number}.json", (number, number))
    assert {path.stem for path in tmp_path.iterdir()} == {str(number) for number in range(2, kept.MOST + 2)}
    (tmp_path / "9.json").write_text("[{}]")
    assert kept.read(tmp_path, "9") is None, "it is measured again"


@pytest.mark.slow
def test_a_copy_is_changed_and_each_change_told_by_its_line(sample: Path, tmp_path: Path) -> None:
    before = contents(sample)
    mutants = changed(sample, tmp_path)
    assert [(one.status, one.change.function, one.change.line, one.change.becomes) for one in mutants] == [
        ("killed", "Sum.add", 7, "return a - b"),
        ("no tests", "Sum.unseen", 11, "return 2"),
    ]
    assert contents(sample) == before


@pytest.mark.slow
def test_tests_that_fail_anyhow_judge_nothing(sample: Path, tmp_path: Path) -> None:
    (sample / "tests/test_sample.py").write_text("def test_sum():\n    assert False, 'broken'\n")
    with pytest.raises(BenchError, match=r"ccm/sample.py: mutmut ended with 1:(.|\n)*broken"):
        changed(sample, tmp_path)


@pytest.mark.slow
def test_ended_in_the_middle_it_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), "ratelimit", "--anew"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("*/mutants/ccm/kube/ratelimit.py.meta")):
            assert time.monotonic() < end, "it never began"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.endswith("bench: interrupted; everything that was started has ended\n")
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cwd") if _leads_into(path, tmp_path)]


def _leads_into(link: Path, folder: Path) -> bool:
    try:
        return str(link.readlink()).startswith(str(folder))
    except OSError:
        return False  # it ended meanwhile

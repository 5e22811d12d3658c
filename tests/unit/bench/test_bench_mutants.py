import ast
from pathlib import Path

import pytest

from bench.lab.report import BenchError
from bench.mutants import EQUIVALENTS, chosen, needless, reasons_of, row_of, survivors_of
from bench.mutation.engine import Mutant, mutants_of
from bench.mutation.judges import JUDGES

TREE = Path(__file__).parents[3]
MODULE, TESTS = "ccm/sample.py", ["tests/test_sample.py"]


def mutant(status: str, becomes: str = "return a - b") -> Mutant:
    return Mutant(status, MODULE, "add", 2, "return a + b", becomes)


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
    for module, function, was, becomes in reasons_of(EQUIVALENTS):
        assert module in JUDGES
        assert was in lines_of(module).get(function, ""), (module, function, was)
        assert was != becomes


def test_what_no_test_noticed_survives_whatever_it_is_called() -> None:
    quiet = ["survived", "no tests", "suspicious", "not checked"]
    mutants = [mutant(one) for one in ("killed", "timeout", "segfault", *quiet)]
    assert len(survivors_of(mutants, {})) == 4
    assert row_of(MODULE, mutants, {}).ours == pytest.approx(400 / 7)
    killed = [mutant("killed")] * 97
    assert row_of(MODULE, [*killed, *[mutant("survived")] * 3], {}).passed
    assert not row_of(MODULE, [*killed, *[mutant("survived")] * 4], {}).passed


def test_what_alters_nothing_does_not_count_and_needs_its_reason(tmp_path: Path) -> None:
    (tmp_path / "table.toml").write_text(
        '[[reason]]\nwhy = "it is the same"\n'
        f'changes = [["{MODULE}", "add", "return a + b", "return b + a"], ["{MODULE}", "add", "x", "y"]]\n'
    )
    reasons = reasons_of(tmp_path / "table.toml")
    mutants = [mutant("killed"), mutant("survived", "return b + a")]
    assert survivors_of(mutants, reasons) == []
    assert row_of(MODULE, mutants, reasons).ours == 0
    assert needless(mutants, reasons) == [f"{MODULE} | add | x | y"]
    assert needless([], reasons) == [], "other modules were not looked at"
    noticed = [mutant("killed", "return b + a")]
    assert len(needless(noticed, reasons)) == 2, "a test notices it: it does not belong there"


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
def test_the_spelling_of_sentences_is_left_out(was: str, becomes: str, left_out: int) -> None:
    change = Mutant("survived", MODULE, "add", 2, was, becomes)
    assert len(survivors_of([change], {})) == 1 - left_out


def test_a_module_is_named_by_the_end_of_its_path() -> None:
    for word in ("lease", "kube/lease.py", "./ccm/kube/lease.py"):
        assert chosen([word]) == ["ccm/kube/lease.py"]
    assert chosen([]) == list(JUDGES)
    with pytest.raises(BenchError, match="'ease' is the end of 0 modules' paths; there are: ccm/"):
        chosen(["ease"])


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A tree with one module, which one test judges."""
    root = tmp_path / "tree"
    for folder in ("ccm", "packages/one/src/one", "tests"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").touch()
    (root / MODULE).write_text(
        "log = None\n\n\nclass Sum:\n    def add(self, a, b):\n        # a comment\n        return a + b\n\n"
        "    def unseen(self):\n        log.info('words')\n        return 1\n\n\n"
        "async def ask(\n    one,\n):\n    return one + 1\n"
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


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_copy_is_changed_and_each_change_has_its_line(sample: Path, tmp_path: Path) -> None:
    before = contents(sample)
    mutants = mutants_of(sample, MODULE, TESTS, tmp_path / "cache")
    assert [(one.status, one.function, one.line, one.becomes) for one in mutants] == [
        ("killed", "Sum.add", 7, "return a - b"),
        ("no tests", "Sum.unseen", 11, "return 2"),
    ]
    assert contents(sample) == before
    next((tmp_path / "cache").iterdir()).write_text("[]")
    assert mutants_of(sample, MODULE, TESTS, tmp_path / "cache") == [], "the cache has it"
    (sample / TESTS[0]).write_text("def test_sum():\n    assert False, 'broken'\n")
    with pytest.raises(BenchError, match=r"ccm/sample.py: mutmut ended with 1:(.|\n)*broken"):
        mutants_of(sample, MODULE, TESTS, tmp_path / "cache")

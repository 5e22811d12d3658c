"""``./dev bench faults`` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from bench import faults
from bench.fault_lab import Cell, Kill

pytestmark = pytest.mark.slow
SCRIPT = Path(faults.__file__)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        cwd=SCRIPT.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_one_cell_as_json() -> None:
    done = run("--json", "--only", "mark a node off/429")
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["operation"], cell["fault"], cell["problem"]) == ("mark a node off", "429", "")
    assert cell["struck"] > 0
    assert cell["calls"] > 0


def test_no_such_cell() -> None:
    done = run("--only", "the moon")
    assert done.returncode == 2
    assert "no cell has 'the moon' in its name" in done.stderr


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize("failing", [False, True])
def test_a_failed_cell_is_explained_and_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: bool
) -> None:
    async def measure(only: str, *, kills: bool) -> tuple[list[Cell], list[Kill]]:
        assert (only, kills) == ("", True)
        problem = "missing: node s1" if failing else ""
        return [Cell("delete a node", "500", problem, 1.5, 12, 2)], [Kill(1, "GET /servers", "", 2.5, 9)]

    monkeypatch.setattr(faults, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["faults"])
    assert faults.main() == int(failing)
    printed = capsys.readouterr().out
    assert ("✗ delete a node, 500: missing: node s1" in printed) is failing
    assert f"{1 if failing else 2} of 2 ended well" in printed
    assert "✓  2.50" in printed

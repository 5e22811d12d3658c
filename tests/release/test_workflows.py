"""The workflows of continuous integration: right for what runs them, and with no will of their own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import ACTIONLINT
from sandbox.kubernetes.errors import GoMissingError
from sandbox.site import cache_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # actionlint may have to be built

FILES = sorted((Path(__file__).parents[2] / ".github" / "workflows").iterdir())
RUN = (r"sudo --preserve-env=HOME \./dev (test|release)", r"sudo chown -R \S+ ~/\.cache/ccm-from-scratch")

each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


@pytest.fixture(scope="module")
def actionlint() -> Path:
    try:
        return toolchain.ensure(cache_directory(os.environ), print, [ACTIONLINT]).bin / "actionlint"
    except GoMissingError as error:
        pytest.skip(str(error))


def lint(program: Path, file: Path) -> subprocess.CompletedProcess[str]:
    # what else is installed on this machine is not asked for its opinion
    command = [program, "-no-color", "-shellcheck=", "-pyflakes=", file]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@each
def test_actionlint_finds_nothing(actionlint: Path, file: Path) -> None:
    done = lint(actionlint, file)
    assert done.returncode == 0, done.stdout


def test_actionlint_would_find_something(actionlint: Path, tmp_path: Path) -> None:
    broken = tmp_path / "workflow.yml"
    broken.write_text(FILES[0].read_text().replace("runs-on:", "run-on:").replace("runner.os", "runner.oss"))
    said = lint(actionlint, broken).stdout
    assert 'unexpected key "run-on"' in said
    assert 'property "oss" is not defined' in said


@each
def test_they_only_call_dev(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    lines = [step["run"] for step in steps if "run" in step]
    assert [line for line in lines if not any(re.fullmatch(one, line) for one in RUN)] == []
    assert any("./dev test" in line for line in lines)


@each
def test_they_may_read_and_nothing_else_and_know_no_secret(file: Path) -> None:
    text = file.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert not [name for name, job in workflow["jobs"].items() if "permissions" in job]
    assert "secrets." not in text


@each
def test_what_they_use_of_others_is_pinned_by_its_commit(file: Path) -> None:
    used = re.findall(r"uses: (.*)$", file.read_text(), re.MULTILINE)
    assert used
    assert [one for one in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []

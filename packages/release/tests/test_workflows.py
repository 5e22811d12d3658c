import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.kubernetes import releases
from tests.child_processes import run
from tests.prepared import programs
from tests.programs.components import ACTIONLINT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # actionlint may have to be built

FILES = sorted((Path(__file__).parents[3] / ".github" / "workflows").iterdir())
TAR = (
    r"sudo tar --(create|extract) --xattrs --xattrs-include='\*' --numeric-owner"
    r"( --exclude=ccm-from-scratch/ccm-image)? --file ~/built\.tar"
    r" -C ~/\.cache( ccm-from-scratch)?"
)
COMMAND = r"setup|test( all| --every| --kubernetes 1\.\d+)|release( --check)? --tag \"\$GITHUB_REF_NAME\""
RUN = (rf"sudo --preserve-env=HOME(,CCMFS_ARTEFACTS)? \./dev ({COMMAND})", rf"(mkdir -p ~/\.cache && )?{TAR}")
each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(file.read_text())["jobs"].values() for step in job["steps"]]


def commands(file: Path) -> list[str]:
    return [step["run"] for step in steps(file) if "run" in step]


@each
def test_actionlint_finds_nothing(file: Path) -> None:
    # Other linters on this machine are not used.
    done = run([programs(ACTIONLINT) / "actionlint", "-no-color", "-shellcheck=", "-pyflakes=", file])
    assert done.returncode == 0, done.stdout


@each
def test_they_only_call_dev(file: Path) -> None:
    lines = commands(file)
    assert [line for line in lines if not any(re.fullmatch(one, line) for one in RUN)] == []
    assert any("./dev test" in line for line in lines)


def test_a_release_is_checked_and_tested_with_every_kubernetes_and_built_without_cached_layers() -> None:
    lines = commands(FILES[0].with_name("release.yml"))
    asked = [line.partition("--kubernetes ")[2] for line in lines if "./dev test" in line]
    found = [releases.named(version, "--kubernetes") if version else releases.default() for version in asked]
    assert sorted(found) == sorted(releases.versions())
    [line] = [line for line in lines if "--extract" in line]
    assert "--exclude=ccm-from-scratch/ccm-image" in line
    assert "./dev release --check --tag" in next(line for line in lines if "./dev" in line)
    assert "./dev release --tag" in lines[-1]


@each
def test_the_clone_has_the_history_without_which_the_upgrade_is_not_tested(file: Path) -> None:
    (checkout,) = (step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"]["fetch-depth"] == 0


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

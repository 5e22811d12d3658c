"""The workflows of continuous integration: right for what runs them, and with no will of their own."""

from __future__ import annotations

import os
import re
import stat
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.errors import MissingRequirement
from sandbox.kubernetes import releases, toolchain
from sandbox.site import cache_directory
from tests.prepared import missing
from tests.programs.components import ACTIONLINT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # actionlint may have to be built

FILES = sorted((Path(__file__).parents[3] / ".github" / "workflows").iterdir())
TAR = (
    r"sudo tar --(create|extract) --xattrs --xattrs-include='\*' --numeric-owner"
    r"( --exclude=ccm-from-scratch/ccm-image)? --file ~/built\.tar"
    r" -C ~/\.cache( ccm-from-scratch)?"
)
COMMAND = r"setup|test( all| --every| --kubernetes 1\.\d+)|release( --check)? --tag \"\$GITHUB_REF_NAME\""
RUN = (
    rf"sudo --preserve-env=HOME(,CCMFS_ARTEFACTS)? \./dev ({COMMAND})",
    rf"(mkdir -p ~/\.cache && )?{TAR}",
)
TEST = yaml.safe_load((FILES[0].parent / "test.yml").read_text())
MAY_PING = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
"""The capability that ping has in Debian, as the kernel keeps it with a file."""

each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


@pytest.fixture(scope="module")
def actionlint() -> Path:
    try:
        return toolchain.ensure(cache_directory(os.environ), print, [ACTIONLINT]).bin / "actionlint"
    except MissingRequirement as error:
        missing(error)


def commands(workflow: dict[str, Any]) -> list[str]:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


@each
def test_actionlint_finds_nothing(actionlint: Path, file: Path) -> None:
    # Other linters on this machine are not used.
    command = [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


@each
def test_they_only_call_dev(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    lines = commands(workflow)
    assert [line for line in lines if not any(re.fullmatch(one, line) for one in RUN)] == []
    assert any("./dev test" in line for line in lines)


def test_a_release_is_tested_with_every_version_of_kubernetes() -> None:
    lines = commands(yaml.safe_load(FILES[0].with_name("release.yml").read_text()))
    asked = [line.partition("--kubernetes ")[2] for line in lines if "./dev test" in line]
    found = [releases.named(version, "--kubernetes") if version else releases.default() for version in asked]
    assert sorted(found) == sorted(releases.versions())
    assert "./dev release --tag" in lines[-1]


def test_what_is_published_is_not_built_from_what_a_test_run_kept() -> None:
    lines = commands(yaml.safe_load(FILES[0].with_name("release.yml").read_text()))
    [line] = [line for line in lines if "--extract" in line]
    assert "--exclude=ccm-from-scratch/ccm-image" in line


def test_what_can_be_no_release_of_its_tag_is_refused_before_the_tests() -> None:
    lines = commands(yaml.safe_load(FILES[0].with_name("release.yml").read_text()))
    assert "./dev release --check --tag" in next(line for line in lines if "./dev" in line)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device and files of other users: needs root")
@each
def test_what_is_kept_for_the_next_run_comes_back_as_it_was(file: Path, tmp_path: Path) -> None:
    """A machine's sshd refuses files of a stranger, and a restore by anyone but root makes no devices."""
    programs, before, after = (tmp_path / name for name in ("bin", "before", "after"))
    programs.mkdir()
    (programs / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (programs / "sudo").chmod(0o755)
    machine = before / ".cache/ccm-from-scratch/image"
    machine.mkdir(parents=True)
    for name, user, mode in (("su", 0, 0o4755), ("key", 101, 0o600), ("log", 65534, 0o640)):
        (machine / name).write_text(name)
        os.chown(machine / name, user, user)
        (machine / name).chmod(mode)
    (machine / "link").hardlink_to(machine / "key")
    try:
        os.mknod(machine / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.setxattr(machine / "su", "security.capability", MAY_PING)
    except OSError as error:
        pytest.skip(f"root of a container may not make what a machine has: {error}")
    (pack,) = (line for line in commands(TEST) if "tar --create" in line)
    (unpack,) = (line for line in commands(yaml.safe_load(file.read_text())) if "tar --extract" in line)
    for home, line in ((before, pack), (after, unpack)):
        if home == after:
            after.mkdir()
            (before / "built.tar").rename(after / "built.tar")
        settings = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-ec", line], env=settings, check=True, timeout=60)
    assert facts(after / ".cache") == facts(before / ".cache")


def facts(folder: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        it = path.stat()
        extended = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        kind = (it.st_mode, it.st_uid, it.st_gid, it.st_rdev, it.st_nlink)
        found[str(path.relative_to(folder))] = (*kind, extended) if path.is_file() else kind[:4]
    return found


@each
def test_the_clone_has_the_history_without_which_the_upgrade_is_not_tested(file: Path) -> None:
    steps = [step for job in yaml.safe_load(file.read_text())["jobs"].values() for step in job["steps"]]
    (checkout,) = (step for step in steps if step.get("uses", "").startswith("actions/checkout@"))
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

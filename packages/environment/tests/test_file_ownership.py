import os
import pwd
from pathlib import Path

import pytest

from sandbox.file_ownership import hand_over
from sandbox.site import cache_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
USER = 12345


def files_of(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def test_files_that_root_creates_for_a_user(tmp_path):
    clone, elsewhere, home = tmp_path / "clone", tmp_path / "elsewhere", tmp_path / "home"
    cache = home / "ccm-from-scratch"
    mine = [
        clone / "kubeconfig.local.yaml",
        clone / "ccm/__pycache__/a.pyc",
        clone / ".sandbox/token",
        clone / ".sandbox/pulumi/a/b/state.json",
        cache / "sites.json",
        cache / "toolchain/a/bin/kubectl",
    ]
    own = [clone / ".git/index", clone / ".sandbox/machines/1/etc/shadow", cache / "image/rootfs/etc/shadow"]
    files_of(*mine, *own, elsewhere / "mine")
    (clone / "linked").hardlink_to(elsewhere / "mine")
    (clone / "pointer").symlink_to(elsewhere / "mine")
    os.chown(clone, USER, USER)
    os.chown(home, USER, USER)
    for other in ({}, {"SUDO_UID": "0"}, {"SUDO_UID": "99"}, {"SUDO_UID": "x"}):
        hand_over(clone, cache, other)
        assert {path.stat().st_uid for path in mine} == {0}
    hand_over(clone, cache, {"SUDO_UID": str(USER)})
    files_of(cache / "toolchain/b/bin/kubectl")
    hand_over(clone, cache, {"SUDO_UID": str(USER)})
    folders = [cache, cache / "toolchain/b/bin", clone / "ccm", clone / ".sandbox"]
    given = [*mine, *folders, cache / "toolchain/b/bin/kubectl"]
    assert [path for path in given if path.stat().st_uid != USER] == []
    assert [path for path in (*own, elsewhere / "mine") if path.stat().st_uid != 0] == []


def test_root_by_sudo_uses_the_users_cache():
    someone = next(one for one in pwd.getpwall() if one.pw_uid)
    found = cache_directory({"SUDO_UID": str(someone.pw_uid)})
    assert found == Path(someone.pw_dir) / ".cache/ccm-from-scratch"
    for other in ({}, {"SUDO_UID": "0"}, {"SUDO_UID": "4294967"}):
        assert cache_directory(other) == Path.home() / ".cache/ccm-from-scratch"
    assert cache_directory({"SUDO_UID": "1", "XDG_CACHE_HOME": "/c"}) == Path("/c/ccm-from-scratch")

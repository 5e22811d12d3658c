import stat

import pytest

from ccm_pulumi.lib import files
from ccm_pulumi.lib.files import PrivateFileProvider, key_file, kubeconfig_file, write_private

WANTED = {"file": ".dev-env.shop.ssh", "content": "secret", "formerly": ".dev-env.ssh"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROOT", tmp_path)
    return tmp_path


def changes(state, wanted=WANTED):
    return PrivateFileProvider().diff("", state, wanted).changes


def test_each_stack_has_files_of_its_own():
    names = [name(stack) for name in (key_file, kubeconfig_file) for stack in ("shop", "local")]
    assert len(set(names)) == len(names)


def test_a_file_for_its_owner_alone_is_written_again_if_it_is_lost_or_changed(folder):
    state = PrivateFileProvider().create(WANTED).outs
    path = folder / ".dev-env.shop.ssh"
    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not changes(state)
    path.write_text("something else")
    assert changes(state)
    path.unlink()
    assert changes(state)
    PrivateFileProvider().update("", state, WANTED)
    assert path.read_text() == "secret"
    assert not changes(state)
    other = {**WANTED, "content": "another secret"}
    assert changes(state, other)
    assert not changes(PrivateFileProvider().update("", state, other).outs, other)
    assert path.read_text() == "another secret"


def test_only_our_own_file_is_removed(folder):
    state = PrivateFileProvider().create(WANTED).outs
    path = folder / ".dev-env.shop.ssh"
    path.write_text("somebody else's")
    PrivateFileProvider().delete("", state)
    assert path.exists()
    write_private(path, "secret")
    PrivateFileProvider().delete("", state)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("formerly", "left"), [("secret", False), ("another stack's", True)])
def test_what_an_earlier_version_wrote_goes_if_it_is_this_stacks(folder, formerly, left):
    (folder / ".dev-env.ssh").write_text(formerly)
    PrivateFileProvider().create(WANTED)
    assert (folder / ".dev-env.ssh").exists() is left


def test_a_failed_write_leaves_nothing(folder):
    (folder / "target").mkdir()
    with pytest.raises(OSError, match="target"):
        write_private(folder / "target", "x")
    assert [path.name for path in folder.iterdir()] == ["target"]

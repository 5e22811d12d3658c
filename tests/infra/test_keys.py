from __future__ import annotations

import stat

import asyncssh
import pytest

from infra import keys, kubeconfig
from infra.files import remove_own, write_private


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "ROOT", tmp_path)
    monkeypatch.setattr(kubeconfig, "ROOT", tmp_path)
    return tmp_path


def test_a_pair_as_openssh_writes_it():
    pair = keys.new_key_pair("ccm dev env")
    private = asyncssh.import_private_key(pair["private_key"])
    public = asyncssh.import_public_key(pair["public_key"])
    assert private.public_data == public.public_data
    assert public.get_comment() == "ccm dev env"
    assert pair["public_key"] == pair["public_key"].strip()


def test_the_private_key_is_written_for_its_owner_only(folder):
    made = keys.KeyPairProvider().create({"comment": "c"})
    path = folder / ".dev-env.ssh"
    assert path.read_text() == made.outs["private_key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lost_file_comes_back_with_the_same_key(folder):
    provider = keys.KeyPairProvider()
    state = provider.create({"comment": "c"}).outs
    assert provider.diff("", state, {"comment": "c"}).changes is False
    (folder / ".dev-env.ssh").unlink()
    assert provider.diff("", state, {"comment": "c"}).changes is True
    again = provider.update("", state, {"comment": "c"}).outs
    assert again["private_key"] == state["private_key"] == (folder / ".dev-env.ssh").read_text()


def test_only_our_own_file_is_removed(folder):
    provider = keys.KeyPairProvider()
    state = provider.create({"comment": "c"}).outs
    (folder / ".dev-env.ssh").write_text("somebody else's")
    provider.delete("", state)
    assert (folder / ".dev-env.ssh").exists()
    write_private(folder / ".dev-env.ssh", state["private_key"])
    provider.delete("", state)
    assert list(folder.iterdir()) == []


def test_the_shared_secret_is_drawn_once():
    provider = keys.SharedSecretProvider()
    first, second = (provider.create({}).outs["value"] for _ in range(2))
    assert first != second
    assert len(first) == 64
    assert provider.diff("", {"value": first}, {}).changes is False


def test_removing_nothing_is_fine(tmp_path):
    remove_own(tmp_path / "absent", "x")


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "target").mkdir()
    with pytest.raises(OSError, match="target"):
        write_private(tmp_path / "target", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]

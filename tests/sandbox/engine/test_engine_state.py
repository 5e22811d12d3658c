from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from test_engine_values import marked, properties

from sandbox.engine.errors import LockedError, PassphraseError, StateError, UnsupportedError, UsageError
from sandbox.engine.projects.project import Project
from sandbox.engine.projects.workspace import open_backend
from sandbox.engine.properties.values import has_secret, is_secret, parts, secret
from sandbox.engine.state.backend import Backend
from sandbox.engine.state.resource import Resource, from_json, to_json
from sandbox.engine.state.secrets import Crypter, passphrase
from sandbox.engine.state.snapshot import Snapshot

CRYPTER = Crypter("x", None)
URN = "urn:pulumi:dev::lab::t:i:T::"


def resource(name: str, **more: Any) -> Resource:
    return Resource(urn=URN + name, type="t:i:T", custom=True, id=name, **more)


class Store:
    """Keeps what was written last."""

    def __init__(self, deployment: dict[str, Any] | None = None) -> None:
        self.writes = 0
        self.snapshot = Snapshot(deployment or {}, CRYPTER, "1.2.3", self._write)

    def _write(self, data: Any) -> None:
        self.writes += 1
        self.data = json.loads(json.dumps(data))

    @property
    def ids(self) -> list[str]:
        return [item["id"] for item in self.data["resources"]]


def test_the_manifest_is_what_the_genuine_engine_expects() -> None:
    store = Store()
    store.snapshot.touch()
    store.snapshot.save()
    manifest = store.data["manifest"]
    assert manifest["version"] == "1.2.3"
    assert manifest["magic"] == hashlib.sha256(b"1.2.3").hexdigest()
    assert store.data["secrets_providers"] == {"type": "passphrase", "state": {"salt": CRYPTER.salt}}


def test_an_operation_is_pending_while_it_runs_and_done_in_one_write() -> None:
    store = Store()
    made = resource("a")
    with store.snapshot.pending("creating", made):
        assert [item["type"] for item in store.data["pending_operations"]] == ["creating"]
        store.snapshot.complete(made, None)
        assert store.ids == ["a"]
        assert "pending_operations" not in store.data


def test_old_resources_stay_until_they_are_replaced_or_gone() -> None:
    first = Store()
    for name in "abc":
        first.snapshot.complete(resource(name), None)
    store = Store(first.data)
    a, b, c = store.snapshot.olds
    new_a, new_b = resource("a"), resource("b", inputs={"x": 1})
    store.snapshot.complete(new_a, a)
    assert store.ids == ["a", "b", "c"]
    store.snapshot.complete(new_b, b, keep_old=True)
    assert store.ids == ["a", "b", "b", "c"]
    assert [item.get("delete", False) for item in store.data["resources"]] == [False, False, True, False]
    store.snapshot.forget(b)
    store.snapshot.forget(c)
    assert store.ids == ["a", "b"]


def test_unchanged_resources_are_not_worth_a_write() -> None:
    first = Store()
    first.snapshot.complete(resource("a"), None)
    store = Store(first.data)
    store.snapshot.complete(resource("a"), store.snapshot.olds[0], save=False)
    assert store.writes == 0
    store.snapshot.save()
    store.snapshot.save()
    assert store.writes == 1


@given(properties, properties)
@settings(max_examples=30, deadline=None)
def test_secrets_are_encrypted_and_nothing_is_lost(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    store = Store()
    store.snapshot.complete(resource("a", inputs=inputs, outputs=outputs), None)
    written = store.data["resources"][0]
    assert all("value" not in part for part in parts(written) if is_secret(part))
    again = Store(store.data)
    (found,) = again.snapshot.olds
    assert has_secret(found.inputs) == has_secret(inputs)
    again.snapshot.touch()
    again.snapshot.save()
    assert again.data["resources"] == store.data["resources"], "unchanged secrets keep their ciphertext"


@given(marked)
@settings(max_examples=30, deadline=None)
def test_sealing_can_be_undone(tree: Any) -> None:
    opened = CRYPTER.open(CRYPTER.seal(tree, "p"), "p")
    assert CRYPTER.seal(opened, "p") == CRYPTER.seal(tree, "p")


def test_a_salt_line_recognises_a_wrong_passphrase() -> None:
    sealed = CRYPTER.encrypt("s3cret")
    assert Crypter("x", CRYPTER.salt).decrypt(sealed) == "s3cret"
    with pytest.raises(PassphraseError, match="incorrect passphrase"):
        Crypter("y", CRYPTER.salt).decrypt(sealed)


def test_ciphertexts_of_the_genuine_cli_can_be_read() -> None:
    salt = "v1:WGFJ5bX7sRU=:v1:OXd5SKQtb9jlbLp/:VpioCw42MVuc74aB7P3TI3iCrfeClQ=="
    assert Crypter("x", salt).decrypt("v1:qyMj70G6sTwm7jNS:tVdkdK11g2KgHgfikx4R7IjgMh7wRA==") == "s3cret"


def test_the_passphrase_comes_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("from a file\n")
    assert passphrase({"PULUMI_CONFIG_PASSPHRASE": ""}) == ""
    assert passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "p")}) == "from a file"
    with pytest.raises(PassphraseError, match="PULUMI_CONFIG_PASSPHRASE"):
        passphrase({})


def test_a_passphrase_may_be_any_bytes(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"\xff\x00secret\n")
    phrase = passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "p")})
    crypter = Crypter(phrase, None)
    sealed = crypter.encrypt("s3cret")
    assert Crypter(os.fsdecode(b"\xff\x00secret"), crypter.salt).decrypt(sealed) == "s3cret"


def test_a_passphrase_is_what_the_cli_takes_it_for(tmp_path: Path) -> None:
    """The bytes of the file without Go's white space around them."""
    for inside in (b"one\r\ntwo\rthree", b"\x1c\x1d\x1e\x1f", b"\x85\xa0"):
        (tmp_path / "p").write_bytes(b"\xc2\xa0 \t\v\f" + inside + b"\r\n\xe2\x80\xa8")
        assert os.fsencode(passphrase({"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "p")})) == inside


def test_resources_keep_what_the_engine_does_not_know() -> None:
    data = {
        "urn": URN + "a",
        "custom": True,
        "type": "t:i:T",
        "id": "1",
        "viewOf": "x",
        "inputs": {"a": secret(1)},
    }
    assert to_json(from_json(data)) == data


# --- the file backend


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return Backend(tmp_path, "lab")


def test_checkpoints_lie_where_the_genuine_cli_looks(backend: Backend, tmp_path: Path) -> None:
    assert backend.load("dev") is None
    backend.save("dev", {"resources": []})
    path = tmp_path / ".pulumi/stacks/lab/dev.json"
    assert json.loads(path.read_text()) == {
        "version": 3,
        "checkpoint": {"stack": "organization/lab/dev", "latest": {"resources": []}},
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / ".pulumi/meta.yaml").read_text() == "version: 1\n"
    assert backend.stacks() == ["dev"]
    assert backend.load("dev") == {"resources": []}


def test_a_backup_that_cannot_be_written_is_one_clear_error(backend: Backend) -> None:
    backend.save("dev", {})
    in_the_way = backend.checkpoint("dev").with_name("dev.json.bak")
    in_the_way.mkdir()
    with pytest.raises(StateError, match=r"dev\.json\.bak: the state can't be copied: Is a directory"):
        backend.keep_backup("dev")
    assert sorted(path.name for path in in_the_way.parent.iterdir()) == ["dev.json", "dev.json.bak"]


def test_a_damaged_checkpoint_is_told_with_its_backup(backend: Backend) -> None:
    backend.save("dev", {})
    backend.checkpoint("dev").write_text("{")
    with pytest.raises(StateError, match=r"dev\.json\.bak is the state before"):
        backend.load("dev")


def test_only_one_run_at_a_time(backend: Backend) -> None:
    with backend.locked("dev"):
        with pytest.raises(LockedError, match=rf"process {os.getpid()} "), backend.locked("dev"):
            pass
        with backend.locked("other"):
            pass
    with backend.locked("dev"):
        pass


def test_the_lock_of_a_dead_run_is_taken_over(backend: Backend) -> None:
    code = (
        "import os, sys; from pathlib import Path; from sandbox.engine.state.backend import Backend\n"
        "held = Backend(Path(sys.argv[1]), 'lab').locked('dev'); held.__enter__(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(backend.folder)], check=True)
    assert len(list(backend.folder.rglob("locks/**/*.json"))) == 1
    with backend.locked("dev"):
        pass
    assert not list(backend.folder.rglob("locks/**/*.json"))


def test_cancel_removes_locks_but_none_of_a_run_that_goes_on(backend: Backend) -> None:
    with backend.locked("dev"):
        with pytest.raises(LockedError, match=rf"process {os.getpid()} "):
            backend.cancel("dev")
        (own,) = backend.locks("dev")
        assert own.runs_here
        assert not own.has_ended
        elsewhere = own.path.with_name("other.json")
        elsewhere.write_text(own.path.read_text().replace(own.hostname, "another-machine"))
        damaged = own.path.with_name("damaged.json")
        damaged.write_text("{")
        assert {lock.path for lock in backend.locks("dev")} == {own.path, elsewhere}
    assert not own.path.exists()
    assert backend.cancel("dev") == 1
    assert not elsewhere.exists()


def test_backends_are_folders(tmp_path: Path) -> None:
    project = Project("lab", tmp_path / "p", tmp_path / "p", backend_url="file://../s")
    assert open_backend(project, {}, tmp_path).folder == tmp_path / "p" / "../s"
    assert open_backend(project, {"PULUMI_BACKEND_URL": "file:///a/b"}, tmp_path).folder == Path("/a/b")
    assert open_backend(project, {"PULUMI_BACKEND_URL": "file://~"}, tmp_path).folder == tmp_path
    with pytest.raises(UnsupportedError, match="s3://bucket"):
        open_backend(project, {"PULUMI_BACKEND_URL": "s3://bucket"}, tmp_path)
    with pytest.raises(UsageError, match="PULUMI_BACKEND_URL"):
        open_backend(Project("lab", tmp_path, tmp_path), {}, tmp_path)


def test_a_resource_that_pulumi_never_wrote_is_told() -> None:
    with pytest.raises(StateError, match=r"resource 'urn:a' can't be understood: .*\.dependencies"):
        from_json({"urn": "urn:a", "type": "t", "custom": True, "dependencies": "urn:b"})

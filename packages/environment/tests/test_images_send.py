import asyncio
import errno
import os
import threading

import pytest

from hetzner_machines.airgap import FOLDER, Airgap
from hetzner_machines.disk import DATA
from sandbox.commands.load import checked, place, refuse_failed
from sandbox.errors import SandboxError
from sandbox.images import send
from sandbox.images.archive import Contents, NotAnArchive
from sandbox.images.send import Answer, Result
from tests.child_processes import run, script


@pytest.fixture
def login(tmp_path):
    """What logs in to a machine: a shell script that has the machine's script as its first argument."""
    return lambda name, body: [str(script(tmp_path / name, body))]


ARCHIVE = "loaded-000001.tar"


def test_results_of_machines(login):
    logins = {
        "worker": login("worker", "echo IMPORTED"),
        "control": login("control", "echo WAITS"),
        "strange": login("strange", "echo 'root@x: Permission denied (publickey).' >&2; exit 255"),
        "broken": login("broken", "echo 'no space left' >&2; exit 1"),
        "greeting": login("greeting", "echo Welcome; echo IMPORTED"),
        "wordy": login("wordy", "echo OK"),
        "silent": login("silent", "true"),
    }
    assert asyncio.run(send.import_all(logins, ARCHIVE)) == {
        "broken": Answer(Result.FAILED, "no space left"),
        "control": Answer(Result.WAITS),
        "greeting": Answer(Result.IMPORTED),
        "wordy": Answer(Result.FAILED, "answers 'OK'"),
        "silent": Answer(Result.FAILED, "answers ''"),
        "strange": Answer(Result.STRANGER),
        "worker": Answer(Result.IMPORTED),
    }


def test_loading_waits_for_a_booting_machine(login, tmp_path):
    body = f"""if [ ! -e {tmp_path}/again ]; then
  touch {tmp_path}/again; echo 'connect to host: Connection refused' >&2; exit 255
fi
echo IMPORTED"""
    assert asyncio.run(send.import_one(login("m", body), ARCHIVE)) == Answer(Result.IMPORTED)


@pytest.mark.parametrize("there", [True, False], ids=["at-once", "after-its-start"])
def test_a_machine_imports_when_containerd_runs(tmp_path, there):
    second = f'[ "$2" = version ] && [ $(grep -c version {tmp_path}/asked) = 2 ] && touch {tmp_path}/socket'
    script(tmp_path / "k3s", f'echo "$@" >> {tmp_path}/asked\n{second}\n[ -e {tmp_path}/socket ]')
    if there:
        (tmp_path / "socket").touch()
    done = run(["sh", "-c", send.script(ARCHIVE)], env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.stdout == "IMPORTED\n"
    imports = [line for line in (tmp_path / "asked").read_text().splitlines() if "import" in line]
    assert imports == [f"ctr images import /{FOLDER}/{ARCHIVE}"] * (1 if there else 2)


def test_a_machine_that_never_answers(login, monkeypatch):
    monkeypatch.setattr(send, "DEADLINE", 2.0)  # it is to be over
    answer = asyncio.run(send.import_one(login("m", "echo 'No route to host' >&2; exit 255"), ARCHIVE))
    assert answer.result is Result.FAILED
    assert "No route to host" in answer.said


def kept(folder, content):
    """An image's archive as it is kept, in place of all others."""
    airgap = Airgap(folder / "state")
    return airgap, *airgap.keep(lambda file: file.write(content), lambda _: True)


def test_a_new_archive_replaces_the_old_one(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    airgap, first, nothing = kept(tmp_path, b"one")
    airgap.place(first, nothing, disk)
    airgap, second, replaced = kept(tmp_path, b"two")
    for _ in range(2):  # once more changes nothing
        airgap.place(second, replaced, disk)
    assert {path.name: path.read_bytes() for path in (disk / FOLDER).iterdir()} == {second.name: b"two"}


def test_disks_that_can_not_share_files(tmp_path, monkeypatch):
    def refuse(*_arguments, **_more):
        raise OSError(errno.EXDEV, "another file system")

    airgap, archive, replaced = kept(tmp_path, b"one")
    shared = tmp_path / "shared with other machines"
    shared.write_text("as it was")
    (tmp_path / FOLDER).mkdir(parents=True)
    os.link(shared, tmp_path / FOLDER / f".{archive.name}.new")
    monkeypatch.setattr(os, "link", refuse)
    airgap.place(archive, replaced, tmp_path)
    assert shared.read_text() == "as it was"
    found = {path.name: path.read_bytes() for path in (tmp_path / FOLDER).iterdir()}
    assert found == {archive.name: b"one"}


def test_links_of_a_machine_are_not_followed(tmp_path):
    airgap, archive, replaced = kept(tmp_path, b"one")
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (disk / FOLDER).parent.mkdir(parents=True)
    (disk / FOLDER).symlink_to(elsewhere)
    machine = tmp_path / "7" / DATA
    machine.parent.mkdir(parents=True)
    disk.rename(machine)
    other = tmp_path / "8" / DATA
    other.mkdir(parents=True)
    machines = [{"id": 7, "name": "hostile"}, {"id": 8, "name": "other"}, {"id": 9, "name": "diskless"}]
    refused = place(tmp_path, machines, lambda root: airgap.place(archive, replaced, root))
    assert [(name, answer.result) for name, answer in refused.items()] == [("hostile", Result.FAILED)]
    assert "can't write the image to the machine's disk: " in refused["hostile"].said
    assert list(elsewhere.iterdir()) == []
    assert (other / FOLDER / archive.name).read_bytes() == b"one"


def test_parallel_and_killed_loads(tmp_path):
    left = tmp_path / "images/.loading/layers"
    left.mkdir(parents=True)
    (tmp_path / "images/.new-1").write_bytes(b"half")
    order, waits = [], threading.Event()

    def second():
        with Airgap(tmp_path).loading(waits.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with Airgap(tmp_path).loading(lambda: order.append("waits")):
        assert list(Airgap(tmp_path).scratch.iterdir()) == []
        assert not (tmp_path / "images/.new-1").exists()
        thread.start()
        assert waits.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert not Airgap(tmp_path).scratch.exists()


def test_a_machine_whose_disk_is_being_created(tmp_path):
    airgap = Airgap(tmp_path)
    new, disk = tmp_path / "disk.new", tmp_path / "disk"
    new.mkdir()
    found = []

    def load():
        archive, replaced = airgap.keep(lambda file: file.write(b"one"), lambda _: False)
        found.extend(path for path in (new, disk) if path.is_dir())
        airgap.place(archive, replaced, disk)

    thread = threading.Thread(target=load)
    with airgap.placed(new):
        thread.start()
        threading.Event().wait(0.2)  # for the other one to do it wrong, which it must not
        new.rename(disk)
    thread.join(60)
    assert found == [disk]
    assert [path.read_bytes() for path in (disk / FOLDER).iterdir()] == [b"one"]


def test_a_machine_without_the_image_is_named():
    refuse_failed({"a": Answer(Result.IMPORTED), "b": Answer(Result.STRANGER), "c": Answer(Result.OFF)})
    with pytest.raises(SandboxError, match=r"machines: b: no space left\. The other machines have the image"):
        refuse_failed({"a": Answer(Result.IMPORTED), "b": Answer(Result.FAILED, "no space left")})


def test_an_image_for_another_processor_is_refused_before_it_is_sent(tmp_path):
    arm = Contents(("app:1",), frozenset({"arm64"}))
    assert checked(tmp_path, arm, "aarch64") == arm
    with pytest.raises(NotAnArchive, match="app:1 is for arm64, but the machines are amd64"):
        checked(tmp_path, arm, "x86_64")

"""An archive on its way to machines; a program stands in for ssh."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.commands.load import checked, refuse_failed
from sandbox.errors import SandboxError
from sandbox.images import send
from sandbox.images.archive import Contents
from sandbox.images.errors import NotAnArchive
from sandbox.images.send import Answer, Result


@pytest.fixture
def login(tmp_path):
    """What logs in to a machine: a shell script that has the machine's script as its first argument."""

    def make(name, body):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return [str(path)]

    return make


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "loaded-000001.tar"
    path.write_bytes(b"an image")
    return path


def test_every_machine_gets_the_whole_archive_and_tells_what_it_did(login, archive, tmp_path):
    logins = {
        "worker": login("worker", f"cat > {tmp_path}/worker.got; echo IMPORTED"),
        "control": login("control", f"cat > {tmp_path}/control.got; echo WAITS"),
        "strange": login("strange", "echo 'root@x: Permission denied (publickey).' >&2; exit 255"),
        "broken": login("broken", "cat > /dev/null; echo 'no space left' >&2; exit 1"),
    }
    assert asyncio.run(send.send_all(logins, archive, [])) == {
        "broken": Answer(Result.FAILED, "no space left"),
        "control": Answer(Result.WAITS),
        "strange": Answer(Result.STRANGER),
        "worker": Answer(Result.IMPORTED),
    }
    assert (tmp_path / "worker.got").read_bytes() == (tmp_path / "control.got").read_bytes() == b"an image"


def test_a_machine_that_boots_is_waited_for_and_gets_the_archive_from_its_beginning(login, archive, tmp_path):
    body = f"""if [ ! -e {tmp_path}/again ]; then
  head -c 3 > {tmp_path}/again; echo 'connect to host: Connection refused' >&2; exit 255
fi
cat > {tmp_path}/got; echo IMPORTED"""
    assert asyncio.run(send.send(login("m", body), archive, [])) == Answer(Result.IMPORTED)
    assert (tmp_path / "got").read_bytes() == b"an image"


def test_a_machine_that_never_answers_is_given_up(login, archive, monkeypatch):
    monkeypatch.setattr(send, "DEADLINE", 0.5)  # short: it is to be over
    answer = asyncio.run(send.send(login("m", "echo 'No route to host' >&2; exit 255"), archive, []))
    assert answer.result is Result.FAILED
    assert "No route to host" in answer.said


def test_the_archives_that_it_replaces_go_once_the_new_one_is_whole():
    text = send.script("loaded-000002.tar", ["loaded-000001.tar"])
    lines = text.splitlines()
    assert lines.index("mv .loaded-000002.tar.new loaded-000002.tar") < lines.index(
        "rm -f -- loaded-000001.tar"
    )
    assert "rm " not in send.script("loaded-000002.tar", [])


def test_a_machine_without_the_image_is_named():
    refuse_failed({"a": Answer(Result.IMPORTED), "b": Answer(Result.STRANGER)}, [])
    with pytest.raises(SandboxError, match=r"b: no space left; c is off\. All others have it"):
        refuse_failed({"a": Answer(Result.IMPORTED), "b": Answer(Result.FAILED, "no space left")}, ["c"])


def test_an_image_for_another_processor_is_refused_before_it_is_sent(tmp_path):
    arm = Contents(("app:1",), frozenset({"arm64"}))
    assert checked(tmp_path, arm, "aarch64") == arm
    with pytest.raises(NotAnArchive, match="app:1 is for arm64; the machines are amd64"):
        checked(tmp_path, arm, "x86_64")

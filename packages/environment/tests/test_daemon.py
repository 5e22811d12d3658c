"""The sandbox process as the commands see it from outside."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from pretended import pretended_sandbox

from ccmfs_common import host
from hetzner_machines import processes
from sandbox import daemon
from sandbox.errors import SandboxError
from sandbox.site import open_site


@pytest.fixture
def clone(tmp_path):
    return open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}, list, host.port_is_free)


@pytest.fixture
def silent(clone):
    with pretended_sandbox(clone, "machines") as child:
        yield child


@pytest.mark.parametrize("ask", [daemon.require, lambda clone: daemon.start(clone, "auto", "instant", print)])
def test_a_sandbox_that_does_not_answer(clone, silent, ask):
    with pytest.raises(SandboxError, match=rf"process {silent.pid}\) does not answer.*kill -9 {silent.pid}"):
        ask(clone)


def test_a_sandbox_with_another_backend(clone, silent):
    with pytest.raises(SandboxError, match=rf"process {silent.pid}\).*machines in place of hollow"):
        daemon.start(clone, "hollow", "instant", print)


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_damaged_records_are_ignored(clone, silent, record):
    (clone.state / "serve.json").write_text(record)
    assert daemon.find(clone) is None


def test_a_sandbox_runs_while_it_holds_its_lock(clone, silent):
    noted = daemon.find(clone)
    assert (noted.pid, noted.port) == (silent.pid, clone.port)
    silent.kill()
    silent.wait()
    daemon.note(clone, replace(noted, pid=os.getpid()))
    assert daemon.find(clone) is None
    assert daemon.stop(clone) is False


@pytest.mark.parametrize("end", [daemon.stop, daemon.kill])
def test_a_sandbox_in_another_pid_namespace(clone, silent, end):
    # Its process ID there is another process's here: this one's.
    daemon.note(clone, replace(daemon.find(clone), pid=os.getpid(), start_time=1))
    assert daemon.find(clone) is not None
    with pytest.raises(SandboxError, match=rf"can't see it \(process {os.getpid()}, port {clone.port}\)"):
        end(clone)
    assert silent.poll() is None


@pytest.fixture
def starting(clone):
    """A sandbox that holds its lock and has noted nothing yet."""
    with pretended_sandbox(clone, "machines") as child:
        daemon.forget(clone)
        yield child


def record_of(child):
    process = processes.identify(child.pid)
    return daemon.Running(child.pid, "machines", start_time=process.start_time, boot_id=process.boot_id)


@pytest.mark.parametrize("end", [daemon.stop, daemon.kill])
def test_stopping_a_starting_sandbox(clone, starting, end):
    noted = threading.Timer(0.3, daemon.note, (clone, record_of(starting)))
    noted.start()
    end(clone)
    noted.join()
    assert starting.wait(60) < 0


@pytest.mark.parametrize("end", [daemon.stop, daemon.kill])
def test_a_sandbox_that_fails_to_start(clone, starting, end):
    failed = threading.Timer(0.3, starting.kill)
    failed.start()
    assert not end(clone)
    failed.join()


@pytest.mark.parametrize("end", [daemon.stop, daemon.kill])
def test_a_sandbox_that_never_starts_to_answer(clone, starting, end, monkeypatch):
    monkeypatch.setattr(daemon, "START_SECONDS", 0.2)
    with pytest.raises(SandboxError, match=r"is being started and does not answer.*serve\.lock"):
        end(clone)
    assert starting.poll() is None


@pytest.mark.parametrize("end", [daemon.stop, daemon.kill])
def test_a_sandbox_that_does_not_end(clone, starting, end, monkeypatch):
    """As one that hangs in the kernel; here, another process has its lock."""
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.2)
    with subprocess.Popen(["sleep", "600"]) as other:
        daemon.note(clone, record_of(other))
        with pytest.raises(SandboxError, match=rf"process {other.pid}\) (does not end|was killed)"):
            end(clone)
        other.kill()


def test_its_recorded_port_is_used(clone, silent):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        daemon.note(clone, replace(daemon.find(clone), port=port))
        listener.settimeout(60)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert daemon.health(clone) == {}
        thread.join(60)


def test_the_lock_is_exclusive(clone):
    with (
        daemon.only_one(clone),
        pytest.raises(SandboxError, match="just being started"),
        daemon.only_one(clone),
    ):
        pass
    with (clone.state / "serve.lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with daemon.only_one(clone):
            pass


def test_a_port_in_use_by_another_program(clone):
    other = "import socket; s = socket.create_server(('127.0.0.1', %d)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", other % clone.port], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(SandboxError, match=f"port {clone.port} on 127.0.0.1 is in use"):
            daemon.start(clone, "auto", "instant", print)
        child.kill()

import fcntl
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from pretended import pretended_sandbox

from hetzner_machines import processes
from sandbox import daemon, leftovers
from sandbox.errors import SandboxError

ENDINGS = pytest.mark.parametrize("end", [daemon.stop, daemon.kill])


@pytest.fixture
def silent(site):
    with pretended_sandbox(site, "machines") as child:
        yield child


@pytest.mark.parametrize("ask", [daemon.require, lambda site: daemon.start(site, "auto", "instant", print)])
def test_a_sandbox_that_does_not_answer(site, silent, ask):
    with pytest.raises(SandboxError, match=rf"process {silent.pid}\) does not answer.*kill -9 {silent.pid}"):
        ask(site)


def test_a_sandbox_with_another_backend(site, silent):
    with pytest.raises(SandboxError, match=rf"process {silent.pid}\).*machines, not --backend hollow"):
        daemon.start(site, "hollow", "instant", print)


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_damaged_records_are_ignored(site, silent, record):
    (site.state / "serve.json").write_text(record)
    assert daemon.find(site) is None


def test_a_sandbox_runs_while_it_holds_its_lock(site, silent):
    noted = daemon.find(site)
    assert (noted.pid, noted.port) == (silent.pid, site.port)
    silent.kill()
    silent.wait()
    daemon.note(site, replace(noted, pid=os.getpid()))
    assert daemon.find(site) is None
    assert daemon.stop(site) is False


@ENDINGS
def test_a_sandbox_in_another_pid_namespace(site, silent, end):
    # Its process ID there is another process's here: this one's.
    daemon.note(site, replace(daemon.find(site), pid=os.getpid(), start_time=1))
    assert daemon.find(site) is not None
    with pytest.raises(SandboxError, match=rf"in a container \(process {os.getpid()}, port {site.port}\)"):
        end(site)
    assert silent.poll() is None


@pytest.fixture
def starting(site):
    """A sandbox that holds its lock and has noted nothing yet."""
    with pretended_sandbox(site, "machines") as child:
        daemon.forget(site)
        yield child


def record_of(child):
    process = processes.identify(child.pid)
    return daemon.Running(child.pid, "machines", start_time=process.start_time, boot_id=process.boot_id)


@ENDINGS
def test_stopping_a_starting_sandbox(site, starting, end):
    noted = threading.Timer(0.3, daemon.note, (site, record_of(starting)))
    noted.start()
    end(site)
    noted.join()
    assert starting.wait(60) < 0


@ENDINGS
def test_a_sandbox_that_never_starts_to_answer(site, starting, end, monkeypatch):
    monkeypatch.setattr(daemon, "START_SECONDS", 0.2)
    with pytest.raises(SandboxError, match=r"did not answer within.*serve\.lock"):
        end(site)
    assert starting.poll() is None


@ENDINGS
def test_a_sandbox_that_does_not_end(site, starting, end, monkeypatch):
    """As one that hangs in the kernel; here, another process has its lock."""
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.2)
    with subprocess.Popen(["sleep", "600"]) as other:
        daemon.note(site, record_of(other))
        with pytest.raises(SandboxError, match=rf"process {other.pid}\) (does not end|was killed)"):
            end(site)
        other.kill()


SLOW_TO_END = """
import fcntl, signal, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
def end(*_): lock.close(); time.sleep(0.5); sys.exit()
signal.signal(signal.SIGTERM, end)
print(flush=True)
signal.pause()
"""


def test_stopping_a_sandbox_waits_until_its_process_has_ended(site):
    lock = str(site.state / "serve.lock")
    command = [sys.executable, "-c", SLOW_TO_END, lock, "-m", "sandbox", "serve", ""]
    with subprocess.Popen(command, cwd=site.root, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        daemon.note(site, record_of(child))
        daemon.stop(site)
        assert not daemon.sandbox_processes(site)


def test_a_sandbox_whose_files_were_deleted_is_killed(site):
    """As after ``git clean -fdx``, which also deletes the lock."""
    (site.root / "sandbox.py").write_text("import time; print(flush=True); time.sleep(600)")
    command = [sys.executable, "-m", "sandbox", "serve"]
    with subprocess.Popen(command, cwd=site.root, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found = leftovers.find(site)
        daemon.kill(site)
        left = daemon.sandbox_processes(site)
        child.kill()
    assert f"process {child.pid}" in found
    assert not left


def test_the_lock_is_exclusive(site):
    with daemon.only_one(site), pytest.raises(SandboxError, match="is starting"), daemon.only_one(site):
        pass
    with (site.state / "serve.lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with daemon.only_one(site):
            pass


def test_a_port_in_use_by_another_program(site):
    other = "import socket; s = socket.create_server(('127.0.0.1', %d)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", other % site.port], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(SandboxError, match=f"port {site.port} on 127.0.0.1 is in use"):
            daemon.start(site, "auto", "instant", print)
        child.kill()

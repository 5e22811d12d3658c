import socket
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from hetzner_emulator.backend import BackendError
from hetzner_machines import processes
from hetzner_machines.balancer import process
from tests.child_processes import script

ROWS = "#<PID> <type> <reloads> <uptime> <version>\n12 master {0} 0d 1\n# workers\n13 worker 0 0d 1\n\n"


@contextmanager
def master(answers):
    """A master socket, in a short path; None of its answers is silence, the last one is given for ever."""
    given = []

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(100)
                reloads = answers[min(len(given), len(answers) - 1)]
                given.append(reloads)
                if reloads is not None:
                    connection.sendall(ROWS.format(reloads).encode())

    with tempfile.TemporaryDirectory(prefix="ccmfs-") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/master")
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield Path(folder, "master"), given
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.fixture
def running():
    # it ends by itself should this process be killed
    with subprocess.Popen(["sh", "-c", "trap : USR2; echo; sleep 60; :"], stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield processes.identify(child.pid)
        child.kill()


@pytest.mark.parametrize("silent", [0, 1, 3])
def test_a_reload_is_noticed_after_unanswered_queries(tmp_path, running, silent):
    (tmp_path / "log").touch()
    with master([*[None] * silent, 7, 7, 7, None, 8]) as (path, given):
        process.reload(running, path, tmp_path / "log")
        assert given[-1] == 8


def test_a_haproxy_that_never_answers_has_not_reloaded(tmp_path, running, monkeypatch):
    monkeypatch.setattr(process, "DEADLINE", 0.2)
    (tmp_path / "log").write_text("the reason")
    with master([None]) as (path, _), pytest.raises(BackendError, match="the reason"):
        process.reload(running, path, tmp_path / "log")


@pytest.mark.parametrize("does", ["exit 1", "exec sleep 600", "trap '' TERM; exec sleep 600"])
def test_a_haproxy_that_never_serves_leaves_no_process(tmp_path, monkeypatch, does):
    monkeypatch.setattr(process, "DEADLINE", 1.0)
    script(tmp_path / "nsenter", f"echo $$ > {tmp_path}/pid\n{does}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(BackendError, match="haproxy"):
        process.start("none", tmp_path / "cfg", tmp_path / "master", tmp_path / "log")
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path("/proc", pid).exists()

"""The sandbox process as the commands see it from outside."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pretended import pretended_sandbox

from sandbox import daemon, host
from sandbox.errors import NotRunning, SandboxError
from sandbox.site import open_site


@pytest.fixture
def clone(tmp_path):
    return open_site(tmp_path, {"XDG_CACHE_HOME": str(tmp_path)}, list, host.port_is_free)


@pytest.fixture
def silent(clone):
    with pretended_sandbox(clone, "machines") as child:
        yield child


@pytest.mark.parametrize("ask", [daemon.require, lambda clone: daemon.start(clone, "auto", "instant", print)])
def test_a_sandbox_that_does_not_answer_is_named_with_what_to_do(clone, silent, ask):
    with pytest.raises(NotRunning, match=rf"process {silent.pid}\) does not answer.*kill -9 {silent.pid}"):
        ask(clone)


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_a_damaged_record_is_none(clone, record):
    (clone.state / "serve.json").write_text(record)
    assert daemon.find(clone) is None


def test_another_program_at_the_port_is_one_clear_error(clone):
    other = "import socket; s = socket.create_server(('127.0.0.1', %d)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", other % clone.port], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(SandboxError, match=f"port {clone.port} on 127.0.0.1 is in use"):
            daemon.start(clone, "auto", "instant", print)
        child.kill()

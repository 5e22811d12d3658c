import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TextIO

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.dynamic.dynamic import PROVIDER_KEY, serialize_provider
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

import pulumi_plugins
from pulumi_plugins.hcloud.provider import HcloudProvider
from pulumi_plugins.serve import Service, listen, to_struct
from pulumi_plugins.shared import VARIABLE, serving
from sandbox.site import cache_directory
from tests.child_processes import run
from tests.pulumi_lab import ROOT, Lab, pulumi
from tests.waiting import wait

pytestmark = pytest.mark.slow
SECONDS = 60
URN = "urn:pulumi:dev::lab::hcloud:index/sshKey:SshKey::k"


def attach(more: dict[str, str]) -> tuple[subprocess.Popen[str], int]:
    """Start ``attach.py``; returns it with the port that it prints."""
    program = Path(str(pulumi_plugins.__file__)).with_name("attach.py")
    command = [sys.executable, "-I", "-S", program, more[VARIABLE], "hcloud", "127.0.0.1:1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    return child, int(child.stdout.readline())


def check(port: int) -> list[str]:
    """A plugin's errors for a key without text."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = provider_pb2.CheckRequest(urn=URN, news=to_struct({"name": "k"}))
        answer = provider_pb2_grpc.ResourceProviderStub(channel).Check(request, timeout=SECONDS)
        return [failure.reason for failure in answer.failures]


def test_plugins_have_separate_settings_and_outlive_dev(tmp_path: Path) -> None:
    with ExitStack() as stack:
        more = stack.enter_context(serving(os.environ, tmp_path))
        (one, port), (other, unset) = attach(more), attach(more)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            settings = to_struct({"token": "x" * 64, "endpoint": "http://127.0.0.1:1/v1"})
            request = provider_pb2.ConfigureRequest(args=settings)
            provider_pb2_grpc.ResourceProviderStub(channel).Configure(request, timeout=SECONDS)
        assert check(port) == ["the input 'publicKey' of hcloud:index/sshKey:SshKey is required"]
        with pytest.raises(grpc.RpcError, match="not configured"):
            check(unset)
        with grpc.insecure_channel(f"127.0.0.1:{unset}") as channel:
            schema = provider_pb2_grpc.ResourceProviderStub(channel).GetSchema
            with pytest.raises(grpc.RpcError, match="--generate-code=false"):  # what 'pulumi import' asks for
                schema(provider_pb2.GetSchemaRequest(), timeout=SECONDS)
        with other:
            other.kill()
        assert check(port), "only the other one has ended"
        killer = threading.Timer(1, one.kill)
        stack.callback(killer.start)
    with one:
        assert one.wait() == -signal.SIGKILL, "it outlives './dev'"
    assert not Path(more[VARIABLE]).parent.exists()


def test_plugins_end_with_the_process_that_becomes_the_engine(tmp_path: Path) -> None:
    becoming = """
import os, pathlib, sys
from pulumi_plugins.shared import VARIABLE, serving
from sandbox.site import cache_directory
with serving(os.environ, pathlib.Path(sys.argv[1])) as more:
    print(more[VARIABLE], flush=True)
    os.execvp("cat", ["cat"])
"""
    command = [sys.executable, "-c", becoming, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout
        path = Path(engine.stdout.readline().strip())
        plugin, _port = attach({VARIABLE: str(path)})
        plugin.kill()
        plugin.communicate(timeout=SECONDS)
        assert path.exists()
    wait(lambda: not path.parent.exists())


def ask(stack: ExitStack, path: str, asked: dict[str, object], *files: int) -> TextIO:
    """Send the language host's request, with files for outputs; returns the answer."""
    connection = stack.enter_context(socket.socket(socket.AF_UNIX))
    connection.settimeout(SECONDS)
    connection.connect(path)
    socket.send_fds(connection, [b"\n"], files)
    connection.sendall(json.dumps({"environment": ["A=b=c"], **asked}).encode() + b"\n")
    return stack.enter_context(connection.makefile())


CONFIGURED = """
from pulumi.dynamic import CheckResult, ResourceProvider
class Configured(ResourceProvider):
    def configure(self, req): self.seconds = req.config.get("lab:seconds")
    def check(self, olds, news): return CheckResult({**news, "seconds": self.seconds}, [])
"""


def test_the_state_and_the_program_have_separate_dynamic_providers(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "configured.py").write_text(CONFIGURED)
    monkeypatch.syspath_prepend(str(tmp_path))
    inputs = to_struct({PROVIDER_KEY: serialize_provider(import_module("configured").Configured())})
    checked = []
    with serving(os.environ, tmp_path) as more, ExitStack() as stack:
        for seconds in ("5", "120"):
            port = ask(stack, more[VARIABLE], {"folder": str(tmp_path)}).readline().strip()
            provider = provider_pb2_grpc.ResourceProviderStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
            asked = provider_pb2.ConfigureRequest(args=to_struct({"lab:seconds": seconds}))
            provider.Configure(asked, timeout=SECONDS)
            checked += [provider.Check(provider_pb2.CheckRequest(urn=URN, news=inputs), timeout=SECONDS)]
    assert [answer.inputs["seconds"] for answer in checked] == ["5", "120"]


def test_a_program_runs_once_with_its_own_environment_and_outputs(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv, os.environ, os.getcwd(), sys.stdin.read())"
    program += "; print('wrong', file=sys.stderr)"
    (tmp_path / "exec").write_text(program + "; sys.exit(32)")
    out, wrong = tmp_path / "out", tmp_path / "wrong"
    asked = {"program": [str(tmp_path / "exec"), "--stack"], "folder": str(tmp_path)}
    with serving(os.environ, tmp_path) as more, ExitStack() as stack:
        files = [stack.enter_context(path.open("w")).fileno() for path in (out, wrong)]
        assert ask(stack, more[VARIABLE], asked, *files).readline() == "32\n"
        read, write = os.pipe()
        assert ask(stack, more[VARIABLE], asked, write, write).read() == "", "the host runs it itself"
        os.close(write)
        with os.fdopen(read) as engine:
            assert engine.read() == "", "the engine waits for its end"
    assert out.read_text() == f"{asked['program']} environ({{'A': 'b=c'}}) {tmp_path} \n"
    assert wrong.read_text() == "wrong\n"


def test_a_program_ends_with_the_host_that_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "exec").write_text("import time; print('runs', flush=True); time.sleep(600)")
    asked = {"program": [str(tmp_path / "exec")], "folder": str(tmp_path)}
    with serving(os.environ, tmp_path) as more:
        read, write = os.pipe()
        with ExitStack() as stack, os.fdopen(read) as said:
            ask(stack, more[VARIABLE], asked, write, write)
            os.close(write)
            assert said.readline() == "runs\n"
            stack.close()
            assert said.read() == ""


@pytest.mark.parametrize("name", ["pulumi-language-python", "pulumi-resource-pulumi-python", "hcloud"])
def test_a_plugin_ends_by_an_interrupt_that_its_engine_ignores(name: str) -> None:
    """An engine that ends interrupts its plugins, and waits five seconds for each that goes on."""
    ours = [sys.executable, "-m", "pulumi_plugins.serve", name]
    command = ours if name == "hcloud" else [str(pulumi().with_name(name))]
    plugin = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "127.0.0.1:1"],
        cwd=ROOT,
        env={**os.environ, "PULUMI_PYTHON_CMD": sys.executable},
        stdout=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert plugin.stdout
        assert plugin.stdout.readline().strip().isdigit()
        until = time.monotonic() + SECONDS
        while plugin.poll() is None:
            assert time.monotonic() < until
            os.killpg(plugin.pid, signal.SIGINT)  # again, since it may not listen for it yet
            time.sleep(0.1)
    finally:
        plugin.kill()
        plugin.communicate(timeout=60)


NOBODY = 65534


@contextmanager
def relay(port: int, user: int) -> Iterator[int]:
    """A port that forwards to another one, as another user to the kernel."""

    def connect() -> None:
        ctypes.CDLL(None).setfsuid(user)  # only of this thread
        accepted, _ = listening.accept()
        with accepted, socket.create_connection(("127.0.0.1", port), timeout=60) as onward:
            back = threading.Thread(target=copy, args=(onward, accepted), daemon=True)
            back.start()
            copy(accepted, onward)

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass  # the test has ended
        target.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=connect, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as another user")
@pytest.mark.parametrize("user", [0, NOBODY])
def test_other_users_of_the_host_are_refused(user: int) -> None:
    server, port = listen(Service(HcloudProvider, "1.0.0", "127.0.0.1:1"))
    try:
        with relay(port, user) as way, grpc.insecure_channel(f"127.0.0.1:{way}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            if user:
                with pytest.raises(grpc.RpcError) as caught:
                    stub.GetPluginInfo(empty_pb2.Empty(), timeout=60)
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            else:
                assert stub.GetPluginInfo(empty_pb2.Empty(), timeout=60).version == "1.0.0"
    finally:
        server.stop(None)


@pytest.mark.parametrize("variable", ["https_proxy", "grpc_proxy"])
def test_no_proxy_is_used_for_loopback(tmp_path: Path, variable: str) -> None:
    # Python's gRPC asks it for 127.0.0.1, too: https://github.com/pulumi/pulumi/issues/2651
    lab = Lab(tmp_path)
    lab.program("from ccm_pulumi.servers.keys import SharedSecret\nSharedSecret('one')\n")
    there = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache_directory(os.environ).parent)}
    environment = {**lab.environment, **there, variable: "http://127.0.0.1:9"}
    words = ["up", "--stack", "dev", "--yes", "--skip-preview"]
    command = [sys.executable, "-P", "-m", "sandbox.pulumi_cli", *words]
    done = run(command, timeout=300, cwd=lab.project, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr

import re
import socket
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from k3s_standin import manifests
from tests.ports import free_port, listens
from tests.waiting import wait

pytestmark = pytest.mark.slow


@contextmanager
def running(*command, **variables):
    """A program, until the end of the block; gives its process."""
    process = subprocess.Popen(
        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def ask(port, path, **options):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **options)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_coredns_has_the_plugins_of_k3ss_corefile_and_of_kubernetes_tests(machine_programs):
    listed = subprocess.check_output([machine_programs.bin / "coredns", "-plugins"], text=True, timeout=60)
    plugins = set(listed.split())
    text = manifests.packaged(manifests.variables("10.43.0.10", "cluster.local", ""))["coredns.yaml"]
    (config,) = [one for one in manifests.objects(text) if one["kind"] == "ConfigMap"]
    corefile = config["data"]["Corefile"]
    ours = {line.split()[0] for line in corefile.splitlines() if re.match(" {4}[a-z]", line)}
    assert ours - {"import"} <= plugins
    assert plugins >= {"hosts", "log", "rewrite", "template", "file", "bind", "header", "autopath"}


def test_whoami_takes_the_variables_and_paths_of_the_program_of_that_name(machine_programs):
    port = free_port()
    program = machine_programs.bin / "whoami"
    with running(program, WHOAMI_PORT_NUMBER=str(port), WHOAMI_NAME="me", PORT="1") as process:
        assert process.stderr.readline().endswith(f"Starting up on port {port}\n")
        wait(lambda: listens(port))  # it says that it starts before it listens
        status, text = ask(port, "/x?y=1", headers={"X-Test": "1"})
        assert status == 200
        assert f"Name: me\nHostname: {socket.gethostname()}\nIP: " in text
        assert re.search(r"^RemoteAddr: 127\.0\.0\.1:\d+$", text, re.MULTILINE)
        assert "GET /x?y=1 HTTP/1.1" in text
        assert "X-Test: 1" in text
        assert '"remoteAddr":"127.0.0.1:' in ask(port, "/api")[1]
        assert ask(port, "/health")[0] == 200
        assert ask(port, "/health", data=b"503")[0] == 200
        assert ask(port, "/health")[0] == 503
        assert ask(port, "/health", data=b"7")[0] == 400
        assert ask(port, "/bench") == (200, "1")
    assert process.returncode == 0, "it ends on request"

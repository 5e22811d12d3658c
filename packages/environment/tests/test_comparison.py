"""The essay's experiment: what is shown of two clusters, and that nothing is left of them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pretended import script

from sandbox.commands.compare import interruptible
from sandbox.comparison import stage
from sandbox.exit_codes import exit_code
from sandbox.kubernetes.toolchain import Toolchain

ROOT = Path(__file__).resolve().parents[3]
TAINT = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}
LABELS = {
    "topology.kubernetes.io/region": "eu-central",
    "topology.kubernetes.io/zone": "fsn1",
    "node.kubernetes.io/instance-type": "cpx22",
}
WITHOUT = Seen(
    node={
        "metadata": {"labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": [TAINT]},
        "status": {"addresses": [{"type": "Hostname", "address": "without-1"}]},
    },
    pod={
        "spec": {},
        "status": {"conditions": [{"type": "PodScheduled", "message": "0/2 nodes are available. x"}]},
    },
    service={"status": {"loadBalancer": {}}},
    load_balancers=[],
    routes=[],
    after="the Node stays",
)
WITH = Seen(
    node={
        "metadata": {"labels": LABELS},
        "spec": {"providerID": "ccm-from-scratch://4000001"},
        "status": {"addresses": [{"type": "ExternalIP", "address": "203.0.113.4"}]},
    },
    pod={"spec": {"nodeName": "with-1"}, "status": {}},
    service={"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}]}}},
    load_balancers=["203.0.113.8"],
    routes=[("10.244.0.0/24", "10.0.0.2")],
    after="the Node is deleted after 5 s",
)


def test_rows_of_a_comparison():
    found = {what: (left, right) for what, left, right in rows(WITHOUT, WITH)}
    taint = "node.cloudprovider.kubernetes.io/\nuninitialized:NoSchedule"
    assert found["Node taint"] == (taint, NOTHING)
    assert found["Node provider ID"] == (NOTHING, "ccm-from-scratch://4000001")
    assert found["Node addresses"] == (NOTHING, "ExternalIP 203.0.113.4")
    assert found["region, zone,\ninstance type"] == (NOTHING, "eu-central, fsn1, cpx22")
    assert found["Pod"] == ("Pending\n0/2 nodes are available", "scheduled to with-1")
    assert found["Service"] == ("EXTERNAL-IP\n<pending> forever", "EXTERNAL-IP\n203.0.113.8")
    assert found["load balancers"] == (NOTHING, "203.0.113.8")
    assert found["routes of the network"] == (NOTHING, "10.244.0.0/24 via 10.0.0.2")
    assert found["after a server\nis deleted"] == ("the Node stays", "the Node is deleted after 5 s")


def below(folder):
    """Command lines of processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:  # it has just ended
            continue
    return [line for line in found if str(folder).encode() in line]


SCRIPT = """
import os, sys
from pathlib import Path
from sandbox.commands import compare
from sandbox.exit_codes import exit_code
from sandbox.site import Clone, cache_directory

clone = Clone("000000", Path(sys.argv[1]), Path(sys.argv[2]), cache_directory(os.environ))
sys.exit(exit_code(lambda: compare.run(clone, None)))
"""


@pytest.fixture
def command(tmp_path, programs):
    """The command in a separate clone with this tree."""
    return [sys.executable, "-c", SCRIPT, str(ROOT), str(tmp_path)]


@pytest.mark.slow
def test_both_clusters(command, tmp_path):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "<pending> forever" in said
    assert "ccm-from-scratch://" in said
    assert "10.244.0.0/24 via" in said
    assert "scheduled to with-" in said
    assert list(tmp_path.iterdir()) == []
    assert below(tmp_path) == []


def test_a_cluster_that_does_not_start(tmp_path, capsys):
    script(tmp_path / "bin/etcd", "exit 3")
    script(tmp_path / "bin/kube-apiserver", "exec sleep 600")
    experiment = stage.compare(Toolchain(tmp_path), ROOT, tmp_path / "work", lambda _: None)
    assert exit_code(lambda: asyncio.run(interruptible(experiment))) == 1
    assert capsys.readouterr().err.startswith("✗ etcd ended")


@pytest.mark.slow
def test_ctrl_c_removes_everything(command, tmp_path):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        deadline = time.monotonic() + 120
        while not any(b"kube-apiserver" in line for line in below(tmp_path)):
            assert running.poll() is None, running.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(running.pid, signal.SIGINT)
        said = running.communicate(timeout=120)[0]
    assert running.returncode == 130, said
    assert list(tmp_path.iterdir()) == []
    assert below(tmp_path) == []

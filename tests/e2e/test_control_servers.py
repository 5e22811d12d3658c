"""Three control servers: one dies and is replaced, two leave, and it is one cluster all the time."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

CHANGES = (" created", " updated", " replaced", " deleted")


def delete(clone, server_id):
    """Delete a server behind the program's back."""
    clone.api(f"/servers/{server_id}", method="DELETE")
    eventually(lambda: server_id not in clone.server_ids().values(), 60, f"server {server_id} is gone")


def asked(clone, *words):
    """What kubectl says; None where nobody answers."""
    try:
        done = clone.dev("kubectl", "--request-timeout=3s", *words, check=False, seconds=60)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def cluster_of(clone):
    return clone.kubectl("get", "namespace", "kube-system")["metadata"]["uid"]


def members(clone):
    """The Nodes with a vote in etcd."""
    nodes = clone.kubectl("get", "nodes", "--selector=node-role.kubernetes.io/etcd=true")["items"]
    return {node["metadata"]["name"].removeprefix("ccm-from-scratch-") for node in nodes}


def changed(output):
    return [
        line for line in output.splitlines() if line.startswith(" ") and line.split(" (")[0].endswith(CHANGES)
    ]


@pytest.fixture(scope="module")
def three(clone, kubernetes_version):
    clone.configure(controlCount=3, workerCount=1, apiEndpoint="load-balancer")
    said = clone.dev("up", "--kubernetes", kubernetes_version).stdout
    assert "The Kubernetes API is open to the Internet at its load balancer" in said
    return clone


def test_one_is_lost_and_replaced_and_two_leave(three):
    before, cluster = three.server_ids(), cluster_of(three)
    assert set(before) == {"control", "control-2", "control-3", "worker-1"}
    assert members(three) == {"control", "control-2", "control-3"}
    assert not changed(three.dev("up").stdout)

    three.api(f"/servers/{before['control']}/actions/poweroff", body={}, method="POST")
    eventually(lambda: asked(three, "get", "namespaces"), 60, "the API answers at its address")
    delete(three, before["control"])
    replaced = three.dev("up").stdout
    # it joined the others: nothing of the cluster was made anew
    assert "K3sServer control replaced" in replaced
    assert not [line for line in changed(replaced) if "kubernetes:" in line or "K3sAgent" in line]
    assert cluster_of(three) == cluster
    after = three.server_ids()
    assert after["control"] != before["control"]
    assert {name: after[name] for name in before if name != "control"} == {
        name: before[name] for name in before if name != "control"
    }
    assert members(three) == {"control", "control-2", "control-3"}

    three.configure(controlCount=1)
    three.dev("up")
    assert set(three.server_ids()) == {"control", "worker-1"}
    assert set(three.nodes()) == {"ccm-from-scratch-control", "ccm-from-scratch-worker-1"}
    assert cluster_of(three) == cluster
    assert not changed(three.dev("up").stdout)
    three.dev("down")

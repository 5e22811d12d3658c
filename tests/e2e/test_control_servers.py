"""Three control servers: one dies, one is made anew, two leave, and it is one cluster all the time."""

from __future__ import annotations

import re

import pytest

from bench.cluster_lab import losses
from bench.cluster_lab.views import STACK, UP, asked, changed
from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster(controls=3, workers=1), pytest.mark.timeout(900)]


def cluster_of(clone):
    return clone.kubectl("get", "namespace", "kube-system")["metadata"]["uid"]


def members(clone):
    """The Nodes with a vote in etcd."""
    nodes = clone.kubectl("get", "nodes", "--selector=node-role.kubernetes.io/etcd=true")["items"]
    return {node["metadata"]["name"].removeprefix("ccm-from-scratch-") for node in nodes}


@pytest.fixture(scope="module")
def three(clone, kubernetes_version):
    clone.configure(controlCount=3, workerCount=1, apiEndpoint="load-balancer")
    said = clone.dev("up", "--kubernetes", kubernetes_version).stdout
    assert "The Kubernetes API is open to the Internet at its load balancer" in said
    return clone


def assert_only(three, role, before, cluster):
    """That control server is another one, and nothing else of the cloud or the cluster is."""
    after = three.server_ids()
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {role}
    assert cluster_of(three) == cluster
    assert members(three) == {"control", "control-2", "control-3"}


def test_one_is_lost_and_replaced_one_is_made_anew_and_two_leave(three):
    before, cluster = three.server_ids(), cluster_of(three)
    assert set(before) == {"control", "control-2", "control-3", "worker-1"}
    assert members(three) == {"control", "control-2", "control-3"}
    assert not changed(three.dev("up").stdout)

    losses.power(three, "control", "poweroff")
    eventually(lambda: asked(three, "get", "namespaces"), 60, "the API answers at its address")
    losses.lose(three, ["control"])
    replaced = three.dev("up").stdout
    # it joined the others: nothing of the cluster was made anew
    assert "K3sServer control replaced" in replaced
    assert not [line for line in changed(replaced) if "kubernetes:" in line or "K3sAgent" in line]
    assert_only(three, "control", before, cluster)

    # as the guide has it for one that is to go while it runs
    before = three.server_ids()
    urns = three.pulumi("stack", "--show-urns", "--stack", STACK).stdout
    urn = re.search(r"URN: (\S+server:Server::control-2)$", urns, re.MULTILINE).group(1)
    three.pulumi(*UP, "--replace", urn)
    assert_only(three, "control-2", before, cluster)

    three.configure(controlCount=1)
    three.dev("up")
    assert set(three.server_ids()) == {"control", "worker-1"}
    assert set(three.nodes()) == {"ccm-from-scratch-control", "ccm-from-scratch-worker-1"}
    assert cluster_of(three) == cluster
    assert not changed(three.dev("up").stdout)
    three.dev("down")

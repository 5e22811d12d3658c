from dataclasses import replace

import pytest

from ccm_pulumi.cluster.drain import EXCLUDED, UPGRADING
from sandbox.leftovers import CloudObject
from tests.e2e.cluster_changes import CHANGES
from tests.e2e.cluster_checks import Facts, Wanted, left, wrong
from tests.e2e.injected_faults import FAULTS, cells

WANTED = Wanted(frozenset({"control"}), frozenset({"worker-1"}), "v1.36.3", "fsn1")
ZONE = "topology.kubernetes.io/zone"


def node(server: int) -> dict:
    return {
        "metadata": {"name": "n", "labels": {ZONE: "fsn1"}, "annotations": {}},
        "spec": {"providerID": f"ccm-from-scratch://{server}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3+k3s1"},
        },
    }


def good() -> Facts:
    return Facts(
        servers={"control": 1, "worker-1": 2},
        nodes={"control": node(1), "worker-1": node(2)},
        members={"control": True},
        urns=["urn:a", "urn:b"],
        kept=frozenset({("servers", 1), ("servers", 2)}),
        cloud=[
            CloudObject("servers", 1, "control", ours=True),
            CloudObject("servers", 2, "worker-1", ours=True),
            CloudObject("load_balancers", 3, "web", ours=True),
        ],
        balancers={3: "uid"},
        services=frozenset({"uid"}),
        replicas=2,
    )


def test_what_is_as_it_is_wanted_is_right() -> None:
    assert wrong(WANTED, good()) == []
    assert wrong(WANTED, replace(good(), members=None)) == []


def of_node(**changes: object) -> Facts:
    """Good but for one Node."""
    other = node(2)
    for path, value in changes.items():
        place, _, key = path.partition("_")
        other[place] |= {key: value}
    return replace(good(), nodes={"control": node(1), "worker-1": other})


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (replace(good(), servers={"control": 1}), "servers: worker-1 is missing"),
        (replace(good(), nodes={**(good().nodes or {}), "x": node(9)}), "Nodes: x is not wanted"),
        (replace(good(), nodes=None), "the cluster does not answer"),
        (replace(good(), members={"control": False}), "member control of etcd is not healthy"),
        (replace(good(), members={"control": True, "x": True}), "members of etcd: x is not wanted"),
        (replace(good(), urns=["urn:a", "urn:a"]), "urn:a is in the state twice"),
        (replace(good(), kept=frozenset({("servers", 1)})), "server worker-1 is in no state"),
        (replace(good(), kept=good().kept | {("networks", 7)}), "networks 7 of the state is not in"),
        (replace(good(), cloud=[*good().cloud, good().cloud[0]]), "servers control is there 2 times"),
        (replace(good(), balancers={}), "load balancer web is in no state"),
        (replace(good(), services=frozenset()), "load balancers of Services: 1, of 0 Services"),
        (replace(good(), replicas=1), "1 Pods of the workload are ready, and 2 are wanted"),
        (of_node(spec_unschedulable=True), "Node worker-1: it is cordoned"),
        (of_node(metadata_annotations={UPGRADING: ""}), "Node worker-1: it is still marked"),
        (of_node(metadata_labels={EXCLUDED: "x", ZONE: "fsn1"}), "Node worker-1: it is still marked"),
        (of_node(metadata_labels={}), "Node worker-1: its zone is '', and fsn1 is wanted"),
        (of_node(status_conditions=[]), "Node worker-1: it is not ready and initialized"),
        (of_node(status_nodeInfo={"kubeletVersion": "v1.35.4"}), "Node worker-1: its kubelet is v1.35.4"),
        (of_node(spec_providerID="x://7"), "Node worker-1: its provider ID is 'x://7'"),
    ],
)
def test_each_problem_is_reported(facts: Facts, problem: str) -> None:
    assert any(said.startswith(problem) for said in wrong(WANTED, facts))


def test_several_control_servers_without_etcd_are_wrong() -> None:
    wanted = replace(WANTED, controls=frozenset({"control", "worker-1"}), workers=frozenset())
    assert "members of etcd: control is missing" in wrong(wanted, replace(good(), members=None))


def test_what_goes_with_the_stack_may_stay() -> None:
    stack = "urn:pulumi:local::p::pulumi:pulumi:Stack::p-local"
    server = "urn:pulumi:local::p::hcloud:index/server:Server::x"
    cloud = [CloudObject("servers", 1, "x", ours=True)]
    assert left(Facts(urns=[stack])) == []
    assert left(Facts(urns=[stack, server], cloud=cloud)) == [
        "server x is left in the cloud",
        f"{server} is left in the state",
    ]


def test_a_fault_is_left_out_where_it_cannot_strike() -> None:
    every = {(change.name, fault.name) for change, fault in cells()}
    assert ("grow a pool", "a server never boots") in every
    assert ("shrink a pool", "a server never boots") not in every
    assert ("destroy", "the drained node dies") not in every
    assert ("destroy", "k3s does not start") not in every
    assert {fault for _, fault in every} == set(FAULTS)
    assert {change for change, _ in every} == set(CHANGES)

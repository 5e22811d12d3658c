import json
import subprocess

import pytest

from tests.e2e import workload
from tests.e2e.cluster_state import changed, kubelets
from tests.e2e.conftest import eventually
from tests.e2e.looks import answers, targets
from tests.e2e.probing_clients import ServiceClient

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

OLDER, NEWER = "1.36", "1.37"
KEPT = {"name": "a", "count": 1, "labels": {"disk": "fast"}, "taints": ["dedicated=a:NoSchedule"]}
TWO = {"name": "a", "count": 2}
CHANGED = {"name": "a", "count": 1, "labels": {"tier": "back"}, "taints": ["slow:PreferNoSchedule"]}
WORKLOAD = (
    workload.SPREAD
    + """          image: ccm-from-scratch.local/tools:1
          command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {load-balancer.hetzner.cloud/location: fsn1}}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
"""
)


def configure(clone, *pools, drain):
    clone.configure(pools=list(pools), drainSeconds=drain)


def marks(node):
    labels = {key: value for key, value in node["metadata"]["labels"].items() if key in ("disk", "tier")}
    taints = {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", [])}
    return labels, {taint for taint in taints if not taint[0].startswith("node.kubernetes.io/")}


def pods_on(clone, node):
    pods = clone.kubectl("get", "pods", "--selector=app=web")["items"]
    ready = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    return [pod for pod in ready if pod["spec"].get("nodeName") == f"ccm-from-scratch-{node}"]


@pytest.fixture(scope="module")
def pooled(clone):
    configure(clone, KEPT, {"name": "b", "count": 1}, {"name": "c", "count": 1}, drain=5)
    clone.dev("up", "--kubernetes", OLDER)
    (clone.root / "workload.yaml").write_text(WORKLOAD)
    clone.dev("kubectl", "apply", "-f", "workload.yaml")
    eventually(lambda: pods_on(clone, "b-1") and pods_on(clone, "c-1"), 120, "a Pod in each pool")
    eventually(lambda: len(targets(clone)) == 4, 120, "all servers behind the load balancer")
    return clone


def test_a_pool_leaves_the_middle_and_no_budget_is_hurt(pooled):
    before = pooled.server_ids()
    assert set(before) == {"control", "a-1", "b-1", "c-1"}
    assert marks(pooled.nodes()["ccm-from-scratch-a-1"]) == ({"disk": "fast"}, {("dedicated", "NoSchedule")})

    configure(pooled, KEPT, {"name": "c", "count": 1}, drain=5)
    refused = pooled.dev("up", check=False)
    assert refused.returncode
    assert "the node ccm-from-scratch-b-1 could not be drained within 5 s" in refused.stdout
    assert "the PodDisruptionBudget web allows no disruption: 2 Pods are healthy" in refused.stdout
    assert pooled.server_ids() == before
    assert pooled.nodes()["ccm-from-scratch-b-1"]["spec"]["unschedulable"]
    eventually(lambda: before["b-1"] in targets(pooled), 60, "it serves on as long as it stays")

    configure(pooled, KEPT, {"name": "b", "count": 1}, {"name": "c", "count": 1}, drain=5)
    kept = pooled.dev("up").stdout
    assert not any(f" {word}" in kept for word in ("created", "replaced", "deleted")), kept
    pooled.dev("kubectl", "uncordon", "ccm-from-scratch-b-1")

    budget = '{"spec": {"minAvailable": 1}}'
    pooled.dev("kubectl", "patch", "poddisruptionbudget", "web", "--type=merge", "--patch", budget)
    configure(pooled, CHANGED, {"name": "c", "count": 1}, drain=120)
    command = ["./dev", "kubectl", "get", "deployment", "web", "--watch", "--output=json"]
    with subprocess.Popen(command, cwd=pooled.root, stdout=subprocess.PIPE, text=True) as watching:
        try:
            pooled.dev("up")
        finally:
            watching.terminate()
        seen = list(documents(watching.stdout.read()))
    available = [item["status"].get("availableReplicas", 0) for item in seen]
    assert available
    assert min(available) >= 1

    after = pooled.server_ids()
    assert after == {name: number for name, number in before.items() if name != "b-1"}
    nodes = pooled.nodes()
    assert sorted(nodes) == [f"ccm-from-scratch-{name}" for name in sorted(after)]
    assert marks(nodes["ccm-from-scratch-a-1"]) == ({"tier": "back"}, {("slow", "PreferNoSchedule")})
    assert targets(pooled) == set(after.values())
    eventually(lambda: len(pods_on(pooled, "c-1")) == 2, 60, "both Pods where there is room")
    assert "unchanged" in (again := pooled.dev("up").stdout)
    assert not changed(again), again


@pytest.fixture(scope="module")
def address(pooled):
    url = workload.deploy(pooled)
    configure(pooled, TWO, drain=120)
    pooled.dev("up")
    return url


def test_replacing_all_workers_loses_few_requests(pooled, address):
    before = pooled.servers()
    configure(pooled, TWO | {"serverType": "cpx32", "image": "debian-12"}, drain=120)
    with ServiceClient(address) as client:
        printed = pooled.dev("up").stdout
    after = pooled.servers()
    print(f"recreated: {len(client.lost)} of {len(client.calls)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    types = {name: server["server_type"]["name"] for name, server in after.items()}
    assert types == {"control": "cpx22", "a-1": "cpx32", "a-2": "cpx32"}
    assert all(after[name]["id"] != before[name]["id"] for name in ("a-1", "a-2"))
    assert after["control"]["id"] == before["control"]["id"]
    places = order(
        printed, "Server a-1 replaced", "ReadyAgain a-1 updated", "Departure a-2 deleting original"
    )
    assert places == sorted(places)
    again = pooled.dev("up").stdout
    assert not changed(again), again


def test_an_upgrade_of_k3s_loses_few_requests(pooled, address):
    assert all(version.startswith(f"v{OLDER}.") for version in kubelets(pooled).values())
    ids = pooled.server_ids()
    with ServiceClient(address) as client:
        printed = pooled.dev("up", "--kubernetes", NEWER).stdout
    print(f"upgraded: {len(client.lost)} of {len(client.calls)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(pooled).values())
    assert pooled.server_ids() == ids
    places = order(
        printed,
        "K3sServer control updated",
        "K3sAgent a-1 updating",
        "ReadyAgain a-1 updated",
        "K3sAgent a-2 updating",
        "ReadyAgain a-2 updated",
    )
    assert places == sorted(places)
    for node in pooled.nodes().values():
        assert not node["spec"].get("unschedulable")
        assert "ccm-from-scratch/upgrading" not in node["metadata"].get("annotations", {})
        assert "node.kubernetes.io/exclude-from-external-load-balancers" not in node["metadata"]["labels"]


def test_a_way_down_is_refused_before_anything_happens(pooled, address):
    pooled.settle()
    before = pooled.writes()
    refused = pooled.dev("up", "--kubernetes", OLDER, check=False)
    assert refused.returncode
    assert "ccm-from-scratch:k3sVersion" in refused.stdout
    assert "k3s does not support downgrades" in refused.stdout
    assert pooled.writes() == before
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(pooled).values())
    assert answers(address)


def documents(text):
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            return  # the last one was cut off
        yield document
        position += len(text[position:]) - len(text[position:].lstrip())


def order(printed, *steps):
    """Where in what was printed each step first stands."""
    places = [printed.find(step) for step in steps]
    assert -1 not in places, (steps, printed)
    return places

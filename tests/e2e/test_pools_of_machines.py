import json
import subprocess

import pytest

from tests.e2e import workload
from tests.e2e.cluster_state import changed
from tests.e2e.conftest import eventually
from tests.e2e.looks import targets

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

KEPT = {"name": "a", "count": 1, "labels": {"disk": "fast"}, "taints": ["dedicated=a:NoSchedule"]}
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
def pooled(clone, kubernetes_version):
    configure(clone, KEPT, {"name": "b", "count": 1}, {"name": "c", "count": 1}, drain=5)
    clone.dev("up", "--kubernetes", kubernetes_version)
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


def documents(text):
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError:
            return  # the last one was cut off
        yield document
        position += len(text[position:]) - len(text[position:].lstrip())

"""All control servers are lost: the next ``up`` goes on from a snapshot, and nothing is there twice."""

from __future__ import annotations

import base64

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1200)]

CONTROLS = ["control", "control-2", "control-3"]
FOLDER = "/var/lib/rancher/k3s/server/db/snapshots"
WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {kubernetes.io/hostname: ccm-from-scratch-worker-1}
      containers:
        - {name: web, image: docker.io/traefik/whoami:v1.11.0}
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {load-balancer.hetzner.cloud/location: fsn1}}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"""


def balancer(clone):
    (one,) = clone.api("/load_balancers")["load_balancers"]
    return one


def targets(clone):
    return {target["server"]["id"] for target in balancer(clone)["targets"]}


def address(clone):
    ingress = clone.kubectl("get", "service", "web")["status"]["loadBalancer"].get("ingress") or [{}]
    return ingress[0].get("ip")


def provider_ids(clone):
    return {
        name.removeprefix("ccm-from-scratch-"): int(node["spec"]["providerID"].rpartition("/")[2])
        for name, node in clone.nodes().items()
        if "providerID" in node["spec"]
    }


def test_all_control_servers_are_lost_and_the_cluster_comes_back(clone, kubernetes_version):
    clone.configure(controlCount=3, workerCount=1, etcdSnapshots={"schedule": "0 */6 * * *", "retention": 9})
    clone.dev("up", "--kubernetes", kubernetes_version)
    (clone.root / "workload.yaml").write_text(WORKLOAD)
    clone.dev("kubectl", "apply", "-f", "workload.yaml")
    eventually(lambda: address(clone), 120, "an address")
    before = clone.server_ids()
    assert sorted(before) == [*CONTROLS, "worker-1"]
    eventually(lambda: targets(clone) == set(before.values()), 120, "all servers behind the load balancer")
    found = (balancer(clone)["id"], address(clone))
    uid = clone.kubectl("get", "service", "web")["metadata"]["uid"]

    saved = clone.dev("ssh", "control", "k3s etcd-snapshot save --name before").stdout
    name = saved.partition("Snapshot ")[2].partition(" saved")[0]
    taken = clone.dev("ssh", "control", f"base64 -w0 {FOLDER}/{name}").stdout
    (clone.root / "taken").write_bytes(base64.b64decode(taken.strip().splitlines()[-1]))
    said = clone.dev("ssh", "control-2", "cat /etc/systemd/system/k3s.service").stdout
    assert "'--etcd-snapshot-schedule-cron=0 */6 * * *'" in said

    for role in CONTROLS:
        clone.api(f"/servers/{before[role]}", method="DELETE")
    eventually(lambda: sorted(clone.server_ids()) == ["worker-1"], 60, "the control servers are gone")
    clone.configure(restoreFrom=str(clone.root / "taken"))
    clone.dev("up")

    after = clone.server_ids()
    assert sorted(after) == sorted(before)
    assert after["worker-1"] == before["worker-1"]
    assert not {after[role] for role in CONTROLS} & {*before.values()}
    eventually(lambda: provider_ids(clone) == after, 60, "every Node is its own server's")
    assert clone.kubectl("get", "service", "web")["metadata"]["uid"] == uid
    eventually(lambda: targets(clone) == set(after.values()), 60, "all servers behind the load balancer")
    assert (balancer(clone)["id"], address(clone)) == found
    assert len(clone.api("/networks")["networks"]) == 1
    again = clone.dev("up").stdout
    assert "restoreFrom is not heeded" in again
    assert not any(f" {word}" in again for word in ("created", "updated", "replaced", "deleted")), again

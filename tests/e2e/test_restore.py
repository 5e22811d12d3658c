import pytest

from hetzner_machines.topology import Uplink
from tests import object_store
from tests.e2e import server_loss
from tests.e2e.cluster_changes import CONTROLS
from tests.e2e.cluster_state import changed, identity, provider_ids
from tests.e2e.conftest import eventually
from tests.e2e.looks import load_balancer_ip, targets

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1200)]

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


def lost_and_brought_back(clone, roles):
    """Lose control servers, and begin again from a snapshot: workers, load balancer and objects stay."""
    before = clone.server_ids()
    assert sorted(before) == [*roles, "worker-1"]
    eventually(lambda: targets(clone) == set(before.values()), 120, "all servers behind the load balancer")
    found = (balancer(clone)["id"], load_balancer_ip(clone, "service/web"))
    uid = clone.kubectl("get", "service", "web")["metadata"]["uid"]
    ran = containers(clone)
    server_loss.take_snapshot(clone, clone.root / "taken")

    server_loss.lose(clone, roles)
    clone.configure(restoreFrom=str(clone.root / "taken"))
    clone.dev("up")

    after = clone.server_ids()
    assert sorted(after) == sorted(before)
    assert after["worker-1"] == before["worker-1"]
    assert not {after[role] for role in roles} & {*before.values()}
    eventually(lambda: provider_ids(clone.nodes()) == after, 60, "every Node is its own server's")
    assert clone.kubectl("get", "service", "web")["metadata"]["uid"] == uid
    eventually(lambda: targets(clone) == set(after.values()), 60, "all servers behind the load balancer")
    assert (balancer(clone)["id"], load_balancer_ip(clone, "service/web")) == found
    assert containers(clone) == ran
    assert len(clone.api("/networks")["networks"]) == 1
    again = clone.dev("up").stdout
    assert "restoreFrom has no effect" in again
    assert not changed(again), again
    clone.configure(restoreFrom="")
    again = clone.dev("up").stdout
    assert not changed(again), again


def containers(clone):
    pods = clone.kubectl("get", "pods", "--selector=app=web")["items"]
    return [status["containerID"] for pod in pods for status in pod["status"]["containerStatuses"]]


def test_the_only_control_server_gets_etcd_and_is_lost_without_a_snapshot(clone, kubernetes_version):
    clone.configure(controlCount=1, workerCount=1)
    clone.dev("up", "--kubernetes", kubernetes_version)
    was = identity(clone)
    clone.configure(etcdSnapshots={"schedule": "0 */6 * * *", "retention": 9})
    clone.dev("up")
    # what was in SQLite is in etcd
    assert identity(clone) == was
    assert server_loss.save_snapshot(clone)
    lost = clone.server_ids()["control"]
    server_loss.lose(clone, CONTROLS[:1])
    refused = clone.dev("up", check=False)
    assert refused.returncode != 0
    assert "no control server of the existing cluster is left" in refused.stdout
    clone.configure(allowDeletionOf=[lost])
    clone.dev("up")
    assert identity(clone) != was
    eventually(
        lambda: provider_ids(clone.nodes()) == clone.server_ids(), 60, "every Node is its own server's"
    )
    again = clone.dev("up").stdout
    assert not changed(again), again


def test_the_only_control_server_is_lost_and_the_cluster_comes_back(clone):
    (clone.root / "workload.yaml").write_text(WORKLOAD)
    clone.dev("kubectl", "apply", "-f", "workload.yaml")
    clone.dev("kubectl", "rollout", "status", "deployment/web", "--timeout=120s")
    eventually(lambda: load_balancer_ip(clone, "service/web"), 120, "an address")
    lost_and_brought_back(clone, CONTROLS[:1])


def test_all_control_servers_are_lost_and_the_cluster_comes_back(clone):
    clone.configure(controlCount=3)
    clone.dev("up")
    said = clone.dev("ssh", "control-2", "cat /etc/systemd/system/k3s.service").stdout
    assert "'--etcd-snapshot-schedule-cron=0 */6 * * *'" in said
    lost_and_brought_back(clone, CONTROLS)


def test_the_snapshot_comes_out_of_a_bucket(clone):
    """Machines reach the store at the host's end of their uplink."""
    before = clone.server_ids()
    assert sorted(before) == [*CONTROLS, "worker-1"]
    with object_store.running("backups", "ME", Uplink.of(clone.site.public_range).host) as store:
        opens = {"accessKey": "ME", "secretKey": "secret-of-the-bucket", "insecure": True}
        bucket = {"endpoint": store.address, "bucket": "backups", "folder": "of/mine", **opens}
        clone.configure(etcdSnapshots={"s3": bucket}, restoreFrom="")
        clone.dev("up")
        name = server_loss.save_snapshot(clone)
        assert f"of/mine/{name}" in store.objects
        seen = clone.dev("ssh", "control", "ps -ef; cat /etc/systemd/system/k3s.service").stdout
        assert opens["secretKey"] not in seen

        server_loss.lose(clone, CONTROLS)
        clone.configure(restoreFrom=name)
        clone.dev("up")

        after = clone.server_ids()
        assert after["worker-1"] == before["worker-1"]
        assert not {after[role] for role in CONTROLS} & {*before.values()}
        eventually(lambda: provider_ids(clone.nodes()) == after, 60, "every Node is its own server's")

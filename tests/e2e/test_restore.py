import pytest

from hetzner_machines.topology import Uplink
from tests import object_store
from tests.e2e import server_loss, workload
from tests.e2e.cluster_changes import CONTROLS
from tests.e2e.cluster_state import changed, identity, provider_ids
from tests.e2e.conftest import eventually
from tests.e2e.looks import load_balancer_ip, targets

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1200)]


def balancer(clone):
    (one,) = clone.api("/load_balancers")["load_balancers"]
    return one


def lost_and_brought_back(clone, roles, save):
    """Delete control servers, and restore the cluster: workers, load balancer and objects stay.

    ``save`` saves a snapshot, and returns the value of ``restoreFrom`` for it.
    """
    before = clone.server_ids()
    assert sorted(before) == [*roles, "worker-1"]
    eventually(lambda: targets(clone) == set(before.values()), 120, "all servers behind the load balancer")
    found = (balancer(clone)["id"], load_balancer_ip(clone, "service/web"))
    uid = clone.kubectl("get", "service", "web")["metadata"]["uid"]
    ran = containers(clone)
    snapshot = save()

    server_loss.lose(clone, roles)
    clone.configure(restoreFrom=snapshot)
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
    workload.deploy(clone)
    lost_and_brought_back(clone, CONTROLS[:1], lambda: server_loss.take_snapshot(clone, clone.root / "taken"))


def test_all_control_servers_are_lost_and_the_cluster_comes_back_out_of_a_bucket(clone):
    """Machines reach the store at the host's end of their uplink."""
    clone.configure(controlCount=3)
    clone.dev("up")
    with object_store.running("backups", "ME", Uplink.of(clone.site.public_range).host) as store:
        opens = {"accessKey": "ME", "secretKey": "secret-of-the-bucket", "insecure": True}
        bucket = {"endpoint": store.address, "bucket": "backups", "folder": "of/mine", **opens}
        clone.configure(etcdSnapshots={"schedule": "0 */6 * * *", "retention": 9, "s3": bucket})
        clone.dev("up")
        for role in CONTROLS:
            seen = clone.dev("ssh", role, "ps -ef; cat /etc/systemd/system/k3s.service").stdout
            assert "'--etcd-snapshot-schedule-cron=0 */6 * * *'" in seen
            assert opens["secretKey"] not in seen

        def saved():
            name = server_loss.save_snapshot(clone)
            assert f"of/mine/{name}" in store.objects
            return name

        lost_and_brought_back(clone, CONTROLS, saved)

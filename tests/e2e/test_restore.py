import pytest

from hetzner_machines.topology import Uplink
from tests import object_store
from tests.e2e import server_loss, workload
from tests.e2e.cluster_changes import CONTROLS
from tests.e2e.cluster_state import changed, identity, provider_ids
from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1200)]


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


def test_all_control_servers_are_lost_and_the_cluster_comes_back_out_of_a_bucket(clone):
    """Machines reach the store at the host's end of their uplink."""
    with object_store.running("backups", "ME", Uplink.of(clone.site.public_range).host) as store:
        opens = {"accessKey": "ME", "secretKey": "secret-of-the-bucket", "insecure": True}
        bucket = {"endpoint": store.address, "bucket": "backups", "folder": "of/mine", **opens}
        snapshots = {"schedule": "0 */6 * * *", "retention": 9, "s3": bucket}
        clone.configure(controlCount=3, etcdSnapshots=snapshots)
        clone.dev("up")
        workload.deploy(clone)
        for role in CONTROLS:
            seen = clone.dev("ssh", role, "ps -ef; cat /etc/systemd/system/k3s.service").stdout
            assert "'--etcd-snapshot-schedule-cron=0 */6 * * *'" in seen
            assert opens["secretKey"] not in seen

        with server_loss.restored(clone, CONTROLS):
            snapshot = server_loss.save_snapshot(clone)
            assert f"of/mine/{snapshot}" in store.objects
            server_loss.lose(clone, CONTROLS)
            clone.configure(restoreFrom=snapshot)
            clone.dev("up")
            again = clone.dev("up").stdout
            assert "restoreFrom has no effect" in again
            assert not changed(again), again
            clone.configure(restoreFrom="")

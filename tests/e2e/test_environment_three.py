import pytest

from tests.e2e import workload
from tests.e2e.cluster_changes import CONTROLS
from tests.e2e.cluster_state import identity, members, provider_ids
from tests.e2e.conftest import eventually
from tests.e2e.looks import nothing_to_do
from tests.e2e.probing_clients import ServiceClient

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]


def test_every_control_server_is_a_member_of_etcd(three):
    assert set(three.server_ids()) == {*CONTROLS, "worker-1"}
    assert members(three) == {*CONTROLS}
    assert provider_ids(three.nodes()) == three.server_ids()


def test_a_control_server_that_is_lost_is_replaced_and_nothing_else_is(three):
    url = workload.deploy(three)
    before, cluster = three.server_ids(), identity(three)
    with ServiceClient(url) as client:
        three.api(f"/servers/{before['control-2']}", method="DELETE")
        eventually(lambda: "control-2" not in three.servers(), 60, "the server is gone")
        said = three.dev("up").stdout
    after = three.server_ids()
    assert after.keys() == before.keys(), said
    assert {role for role in after if after[role] != before[role]} == {"control-2"}
    assert members(three) == {*CONTROLS}
    assert identity(three) == cluster
    assert client.answered > 100
    eventually(lambda: provider_ids(three.nodes()) == after, 60, "every Node is its own server's")
    nothing_to_do(three)


@pytest.mark.nightly
def test_a_control_server_that_was_rebuilt_or_whose_node_was_deleted_joins_again(three):
    before, cluster = three.server_ids(), identity(three)
    three.api(f"/servers/{before['control-2']}/actions/rebuild", {"image": "debian-13"})
    eventually(lambda: three.servers()["control-2"]["status"] == "running", 60, "the server runs again")
    three.dev("up")
    assert members(three) == {*CONTROLS}
    three.dev("kubectl", "delete", "node", "ccm-from-scratch-control-3")
    three.dev("up")
    assert members(three) == {*CONTROLS}
    assert identity(three) == cluster
    assert three.server_ids() == before
    nothing_to_do(three)

import re

import pytest

from tests.e2e import drift, workload
from tests.e2e.cluster_changes import CONTROLS
from tests.e2e.cluster_state import identity, members, provider_ids
from tests.e2e.conftest import eventually
from tests.e2e.looks import api_address, api_balancer, default_route, nothing_to_do
from tests.e2e.probing_clients import ServiceClient

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]


def test_every_control_server_is_a_member_of_etcd(three):
    assert set(three.server_ids()) == {"nat", *CONTROLS, "worker-1"}
    assert members(three) == {*CONTROLS}
    assert provider_ids(three.nodes()) == node_ids(three)


def test_the_log_has_the_lines_of_every_replica_of_the_ccm(three):
    said = three.dev("logs", "--no-follow").stdout
    assert len(set(re.findall(r"^\[pod/(\S+?)/", said, re.MULTILINE))) == 2


def test_only_the_nat_server_has_public_addresses(three):
    public = {role: server["public_net"] for role, server in three.servers().items()}
    assert {role for role, net in public.items() if net["ipv4"] or net["ipv6"]} == {"nat"}
    for node in three.nodes().values():
        kinds = {address["type"] for address in node["status"]["addresses"]}
        assert kinds == {"Hostname", "InternalIP"}
    (private_ip,) = [at["ip"] for at in three.servers()["worker-1"]["private_net"]]
    assert f" {private_ip}/" in three.dev("ssh", "worker-1", "ip", "-4", "address").stdout


def test_a_worker_reaches_a_public_address_by_the_nat_server_and_its_route_is_repaired(three):
    # without a certificate, the API server refuses the request
    asks = ("curl", "-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}")
    said = three.dev("ssh", "worker-1", *asks, f"https://{api_address(three)}:6443/readyz").stdout
    assert said.strip().endswith("401")
    three.dev("ssh", "worker-1", "ip", "-4", "route", "del", "default")
    eventually(lambda: default_route(three), 60, "its route again")


def test_a_control_server_that_is_lost_is_replaced_and_nothing_else_is(three):
    url = workload.deploy(three)
    # from a control server to the Service's own address, and by it to a Pod on the worker
    cluster_ip = three.kubectl("get", "service", "web")["spec"]["clusterIP"]
    assert "Hostname" in three.dev("ssh", "control", "curl", "-s", "--max-time", "10", cluster_ip).stdout
    # a type that somebody has chosen in the Console stays
    enlarge = f"/load_balancers/{api_balancer(three)['id']}/actions/change_type"
    three.api(enlarge, {"load_balancer_type": "lb21"}, "POST")
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
    assert api_balancer(three)["load_balancer_type"]["name"] == "lb21"
    assert client.answered > 100
    eventually(
        lambda: provider_ids(three.nodes()) == node_ids(three), 60, "every Node has the ID of its server"
    )
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


@pytest.mark.nightly
@pytest.mark.timeout(drift.SECONDS)
def test_drift_is_gone_after_one_run(three):
    # etcd has no quorum then
    drift.are_repaired(three, {"unit stopped": "control-2", "unit disabled": "control-3"})
    drift.random_changes_are_repaired(three)


def node_ids(environment):
    """The IDs of the servers that are Nodes, by role."""
    return {role: number for role, number in environment.server_ids().items() if role != "nat"}

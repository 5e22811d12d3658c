import pytest

from tests.e2e.conftest import eventually
from tests.e2e.looks import answers, api_address, balancers, default_route, nothing_to_do, public_address

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]


def test_only_the_nat_server_has_public_addresses(private):
    public = {role: server["public_net"] for role, server in private.servers().items()}
    assert set(public) == {"nat", "control", "worker-1"}
    assert {role for role, net in public.items() if net["ipv4"] or net["ipv6"]} == {"nat"}
    for node in private.nodes().values():
        kinds = {address["type"] for address in node["status"]["addresses"]}
        assert kinds == {"Hostname", "InternalIP"}
    (private_ip,) = [at["ip"] for at in private.servers()["worker-1"]["private_net"]]
    assert f" {private_ip}/" in private.dev("ssh", "worker-1", "ip", "-4", "address").stdout


def test_nothing_is_left_to_do(private):
    nothing_to_do(private)


def test_a_worker_reaches_a_public_address_by_the_nat_server_and_its_route_is_repaired(private):
    # without a certificate, the API server refuses the request
    asks = ("curl", "-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}")
    said = private.dev("ssh", "worker-1", *asks, f"https://{api_address(private)}:6443/readyz").stdout
    assert said.strip().endswith("401")
    private.dev("ssh", "worker-1", "ip", "-4", "route", "del", "default")
    eventually(lambda: default_route(private), 60, "its route again")


def test_a_service_answers_at_its_load_balancer_and_inside(private):
    private.dev("kubectl", "apply", "-f", "manifests/examples/service.yaml")
    (balancer,) = eventually(lambda: balancers(private), 60, "a load balancer")
    eventually(lambda: answers(f"http://{public_address(balancer)}/"), 90, "an answer at the load balancer")
    # from a node to the Service's own address, and by it to a Pod of either node
    cluster_ip = private.kubectl("get", "service", "whoami")["spec"]["clusterIP"]
    assert "Hostname" in private.dev("ssh", "control", "curl", "-s", "--max-time", "10", cluster_ip).stdout

"""A cluster whose servers have no public addresses, behind the one server that leads them to the Internet."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]


def answers(url):
    """Whether somebody answers there."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status == 200
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def default_route(clone):
    """That of the worker; empty where it has none."""
    return clone.dev("ssh", "worker-1", "ip", "-4", "route", "show", "default").stdout.strip()


def balancer(clone, name):
    """The public address of the one load balancer whose name begins or ends like that."""
    found = clone.api("/load_balancers")["load_balancers"]
    return next((item["public_net"]["ipv4"]["ip"] for item in found if name(item["name"])), None)


@pytest.fixture(scope="module")
def private(clone, kubernetes_version):
    clone.configure(privateNodes=True, apiEndpoint="load-balancer", workerCount=1)
    clone.dev("up", "--kubernetes", kubernetes_version)
    return clone


def test_it_works_without_public_addresses(private):
    servers = private.servers()
    public = {role: server["public_net"] for role, server in servers.items()}
    assert set(public) == {"nat", "control", "worker-1"}
    assert {role for role, net in public.items() if net["ipv4"] or net["ipv6"]} == {"nat"}
    for node in private.nodes().values():
        kinds = {address["type"] for address in node["status"]["addresses"]}
        assert kinds == {"Hostname", "InternalIP"}
    (private_ip,) = [at["ip"] for at in servers["worker-1"]["private_net"]]
    assert f" {private_ip}/" in private.dev("ssh", "worker-1", "ip", "-4", "address").stdout
    assert not any(word in private.dev("up").stdout for word in (" created", " updated", " replaced"))

    # a public address, so by the NAT server; whoever has no certificate is refused there
    api = balancer(private, lambda name: name.endswith("-api"))
    asks = ("curl", "-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}")
    said = private.dev("ssh", "worker-1", *asks, f"https://{api}:6443/readyz").stdout
    assert said.strip().endswith("401")
    private.dev("ssh", "worker-1", "ip", "-4", "route", "del", "default")
    eventually(lambda: default_route(private), 60, "its route again")

    private.dev("kubectl", "apply", "-f", "manifests/examples/service.yaml")
    eventually(lambda: balancer(private, lambda name: not name.endswith("-api")), 60, "a load balancer")
    address = balancer(private, lambda name: not name.endswith("-api"))
    eventually(lambda: answers(f"http://{address}/"), 90, "an answer at the load balancer")
    # from a node to the Service's own address, and by it to a Pod of either node
    cluster_ip = private.kubectl("get", "service", "whoami")["spec"]["clusterIP"]
    assert "Hostname" in private.dev("ssh", "control", "curl", "-s", "--max-time", "10", cluster_ip).stdout

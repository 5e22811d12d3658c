import pytest

from tests.pulumi_cloud import EmulatedCloud
from tests.pulumi_lab import Lab

pytestmark = pytest.mark.slow

PROGRAM = """
import pulumi_hcloud as h
E = os.environ.get
n = h.Network("n", name="net", ip_range="10.0.0.0/16")
s = h.NetworkSubnet("s", network_id=n.id.apply(int), type="cloud", network_zone="eu-central",
    ip_range="10.0.1.0/24")
b = h.LoadBalancer("b", name="api", load_balancer_type=E("TYPE", "lb11"), location="fsn1",
    labels={"a": E("LABEL", "b")}, ipv4_id=int(E("IP")) if E("IP") else None)
B = b.id.apply(int)
p = h.LoadBalancerNetwork("p", load_balancer_id=B, subnet_id=s.id,
    enable_public_interface=E("PUBLIC", "yes") == "yes", opts=O(deleted_with=b))
t = h.LoadBalancerTarget("t", load_balancer_id=B, type="label_selector",
    label_selector=E("SELECTOR", "role==control"), use_private_ip=True,
    opts=O(depends_on=[p], deleted_with=b))
v = h.LoadBalancerService("v", load_balancer_id=b.id, protocol="tcp", listen_port=6443, destination_port=6443,
    health_check=h.LoadBalancerServiceHealthCheckArgs(protocol="http", port=6443, interval=3, timeout=2,
        retries=int(E("RETRIES", "2")), http=h.LoadBalancerServiceHealthCheckHttpArgs(path="/readyz",
            tls=True, status_codes=["2??", "401"])), opts=O(deleted_with=b))
"""


def balancer(cloud: EmulatedCloud) -> dict:
    (found,) = cloud.get("/load_balancers")["load_balancers"]
    return found


def test_a_load_balancer_is_created_changed_and_deleted(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(PROGRAM)
    found, state = balancer(cloud), hetzner.resources()
    (service,), (target,) = found["services"], found["targets"]
    assert service["health_check"]["http"]["status_codes"] == ["2??", "401"]
    assert service["health_check"]["http"]["tls"] is True
    assert target["label_selector"]["selector"] == "role==control"
    assert target["use_private_ip"] is True
    assert state["p"]["outputs"]["ip"] == found["private_net"][0]["ip"]
    assert state["b"]["outputs"]["ipv4"] == found["public_net"]["ipv4"]["ip"]
    assert state["v"]["id"] == f"{found['id']}__6443"
    assert state["t"]["id"].startswith("lb-label-selector-tgt-")

    assert "7 unchanged" in hetzner.up()
    assert "7 unchanged" in hetzner.run("preview", "--refresh").out

    # another change of the load balancer is going on
    switch = "/load_balancers/{id}/actions/disable_public_interface"
    cloud.admin("POST", "/faults", {"path": switch, "times": 1, "code": "locked"})
    out = hetzner.up(TYPE="lb21", LABEL="c", PUBLIC="no", RETRIES="4")
    assert "~ 3 updated" in out
    found = balancer(cloud)
    assert found["load_balancer_type"]["name"] == "lb21"
    assert found["labels"] == {"a": "c"}
    assert found["public_net"]["enabled"] is False
    assert found["services"][0]["health_check"]["retries"] == 4

    kept = {"TYPE": "lb21", "LABEL": "c", "PUBLIC": "no", "RETRIES": "4", "SELECTOR": "role==other"}
    hetzner.up(**kept)
    assert [item["label_selector"]["selector"] for item in balancer(cloud)["targets"]] == ["role==other"]

    body = {"name": "api", "type": "ipv4", "location": "fsn1"}
    ip = cloud.send("POST", "/primary_ips", body)["primary_ip"]
    assert "replaced" in hetzner.up(**kept, IP=str(ip["id"]))  # Hetzner only assigns addresses to new ones
    assert balancer(cloud)["public_net"]["ipv4"]["ip"] == ip["ip"]
    assert hetzner.resources()["b"]["outputs"]["ipv4Id"] == ip["id"]
    assert "7 unchanged" in hetzner.up(**kept, IP=str(ip["id"]))

    assert hetzner.run("destroy", "--yes").status == 0
    assert cloud.names("primary_ips") == ["api"], "it outlives the load balancer"
    assert not cloud.names("load_balancers")


def test_deleted_services_and_targets_are_created_again(hetzner: Lab, cloud: EmulatedCloud) -> None:
    hetzner.up(PROGRAM)
    path = f"/load_balancers/{balancer(cloud)['id']}/actions"
    cloud.send("POST", f"{path}/delete_service", {"listen_port": 6443})
    selector = {"type": "label_selector", "label_selector": {"selector": "role==control"}}
    cloud.send("POST", f"{path}/remove_target", selector)
    assert "- 2 deleted" in hetzner.run("refresh", "--yes").out
    hetzner.up()
    assert len(balancer(cloud)["services"]) == len(balancer(cloud)["targets"]) == 1

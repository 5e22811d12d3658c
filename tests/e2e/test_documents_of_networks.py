import subprocess

import pytest

from tests.e2e.cluster_state import changed
from tests.e2e.conftest import eventually
from tests.e2e.looks import answers, api_address, balancers, nothing_to_do, public_address
from tests.e2e.reader import Reading

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1800)]

PAGES = ("docs/guides/private-nodes.md", "docs/guides/moving-in.md")
RANGE, SUBNET = "10.0.0.0/16", "10.0.1.0/24"
OLD_PODS = "10.0.64.0/24"
OFFICIAL = {"hcloud-ccm/service-uid": "6a1f2cf1-3f3c-4b7e-8d0c-2f4c8c5f5a11"}
"""The label that the official cloud-controller-manager gives a load balancer: its Service's UID."""
LEAD_ON = f"""set -e
sysctl -q -w net.ipv4.ip_forward=1
nft add table ip lead
nft 'add chain ip lead out {{ type nat hook postrouting priority srcnat; }}'
nft add rule ip lead out ip saddr {RANGE} ip daddr != {RANGE} masquerade
"""


def run(*command, **more):
    """A program of this host; what it printed, and nothing where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)
    return "" if done.returncode else done.stdout.strip()


def act(clone, path, body):
    action = clone.api(path, body)["action"]["id"]
    eventually(lambda: clone.api(f"/actions/{action}")["action"]["status"] == "success", 60, path)


def server(clone, identity):
    return clone.api(f"/servers/{identity}")["server"]


def own_network(clone):
    """A network of one's own, as one has it at Hetzner: its id."""
    made = clone.api("/networks", {"name": "mine", "ip_range": RANGE})["network"]["id"]
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": SUBNET}
    act(clone, f"/networks/{made}/actions/add_subnet", subnet)
    return made


def own_gateway(clone, network, folder):
    """A server of one's own in it that leads on: its id, and its public address."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/key")
    public = (folder / "key.pub").read_text()
    key = clone.api("/ssh_keys", {"name": "mine", "public_key": public})["ssh_key"]["id"]
    wanted = {"server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    body = {"name": "gateway", "ssh_keys": [key], "networks": [network], **wanted}
    identity = clone.api("/servers", body)["server"]["id"]
    eventually(lambda: server(clone, identity)["private_net"], 60, "the gateway is in the network")
    eventually(lambda: server(clone, identity)["status"] == "running", 60, "the gateway runs")
    public_ip = server(clone, identity)["public_net"]["ipv4"]["ip"]
    scan = ("ssh-keyscan", "-t", "ed25519", public_ip)
    host_key = eventually(lambda: run(*scan).partition(" ")[2], 60, "its SSH").strip()
    known = folder / "known_hosts"
    known.write_text(f"{public_ip} {host_key}\n")
    options = ("-i", f"{folder}/key", "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes")
    assert run("ssh", *options, f"root@{public_ip}", "sh -s", input=f"{LEAD_ON}echo leads") == "leads"
    (private,) = [at["ip"] for at in server(clone, identity)["private_net"]]
    route = {"destination": "0.0.0.0/0", "gateway": private}
    act(clone, f"/networks/{network}/actions/add_route", route)
    return identity, public_ip


def without_users(clone, network):
    """A network without what changes with every server and load balancer in it."""
    found = clone.api(f"/networks/{network}")["network"]
    return {key: value for key, value in found.items() if key not in {"servers", "load_balancers"}}


def old_balancer(clone, network, target):
    """A load balancer as the official cloud-controller-manager of an old cluster has made it: its id."""
    body = {
        "name": "a6a1f2cf13f3c4b7e8d0c2f4c8c5f5a1",
        "load_balancer_type": "lb11",
        "location": "fsn1",
        "network": network,
        "labels": OFFICIAL,
    }
    made = clone.api("/load_balancers", body)["load_balancer"]["id"]
    path = f"/load_balancers/{made}"
    eventually(lambda: clone.api(path)["load_balancer"]["private_net"], 60, "it is in the network")
    sends = {"type": "server", "server": {"id": target}, "use_private_ip": True}
    act(clone, f"{path}/actions/add_target", sends)
    for port, node_port in ((443, 31443), (80, 31080)):
        service = {"protocol": "tcp", "listen_port": port, "destination_port": node_port}
        act(clone, f"{path}/actions/add_service", service)
    return made


@pytest.fixture(scope="module")
def empty(clone, kubernetes_version):
    """A cloud without servers: what its stack asks for is refused."""
    clone.configure(workerCount=1, privateNodes=True)
    refused = clone.dev("up", "--kubernetes", kubernetes_version, check=False)
    assert refused.returncode
    assert "ccm-from-scratch:apiEndpoint" in refused.stdout
    assert clone.api("/load_balancers")["load_balancers"] == []
    assert clone.servers() == {}
    return clone


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mine")


def test_servers_without_public_addresses_and_a_gateway_of_ones_own(empty, folder):
    with Reading(empty, PAGES[0], file=str(folder / "key")) as page:
        page.until("## A gateway of yours")
        nothing_to_do(empty)
        empty.pulumi("destroy", "--yes")
        assert empty.servers() == {}
        network = own_network(empty)
        _, gateway = own_gateway(empty, network, folder)
        page.set(network=str(network), gateway=gateway)
        page.rest()


def test_a_cluster_beside_an_old_one_takes_its_network_and_its_load_balancer(empty):
    gateway = empty.servers()["gateway"]
    (at,) = gateway["private_net"]
    network = at["network"]
    # as the old cluster's cloud-controller-manager has it for Pods
    act(empty, f"/networks/{network}/actions/add_route", {"destination": OLD_PODS, "gateway": at["ip"]})
    old = old_balancer(empty, network, gateway["id"])
    (before,) = balancers(empty)
    mine = without_users(empty, network)
    with Reading(empty, PAGES[1], network=str(network), balancer=str(old)) as page:
        said = page.until("## 2. The applications")
        assert "= 2 to import" in said
        assert "= 2 imported" in said
        assert without_users(empty, network) | {"routes": mine["routes"]} == mine
        assert_it_works_behind_a_gateway(empty)
        page.rest()
    eventually(lambda: len(balancers(empty)[0]["targets"]) == 2, 60, "both servers are its targets")
    (after,) = balancers(empty)
    assert after["id"] == old
    assert after["public_net"] == before["public_net"]
    assert after["private_net"] == before["private_net"]
    shop = {item["id"] for item in empty.servers().values() if item["id"] != gateway["id"]}
    assert {target["server"]["id"] for target in after["targets"]} == shop
    assert [service["listen_port"] for service in after["services"]] == [80]
    uid = empty.kubectl("get", "service", "whoami")["metadata"]["uid"]
    assert after["labels"]["hcloud-ccm/service-uid"] == uid
    eventually(lambda: answers(f"http://{public_address(before)}/"), 60, "an answer at its address")

    empty.pulumi("destroy", "--yes")
    assert set(empty.servers()) == {"gateway"}
    assert [item["id"] for item in empty.api("/load_balancers")["load_balancers"]] == [old]
    assert without_users(empty, network) == mine


def assert_it_works_behind_a_gateway(shop):
    public = {item["name"]: item["public_net"] for item in shop.servers().values()}
    assert set(public) == {"gateway", "shop-control", "shop-worker-1"}
    assert not any(public[name]["ipv4"] or public[name]["ipv6"] for name in public if name != "gateway")
    assert not changed(shop.dev("up").stdout)

    # no address leads there from this host, and no NAT server that the sandbox knows
    assert shop.dev("ssh", "control", "hostname").stdout.strip() == "shop-control"

    # from a Pod to a public address: by its node, the network's route, and the gateway
    shop.dev("kubectl", "run", "tools", "--image=ccm-from-scratch.local/tools:1")
    shop.dev("kubectl", "wait", "--for=condition=Ready", "pod/tools", "--timeout=60s")
    asks = ("curl", "-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}")
    said = shop.dev(
        "kubectl", "exec", "tools", "--", *asks, f"https://{api_address(shop)}:6443/readyz"
    ).stdout
    assert said.strip() == "401"

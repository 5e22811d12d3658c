"""A cluster whose servers have no public addresses, behind the one server that leads them to the Internet."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request

import pytest

from tests.e2e.conftest import eventually

pytestmark = [pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

RANGE, SUBNET = "10.0.0.0/16", "10.0.1.0/24"
LEAD_ON = f"""set -e
sysctl -q -w net.ipv4.ip_forward=1
nft add table ip lead
nft 'add chain ip lead out {{ type nat hook postrouting priority srcnat; }}'
nft add rule ip lead out ip saddr {RANGE} ip daddr != {RANGE} masquerade
"""


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


def run(*command, **more):
    """A program of this host; what it printed, and nothing where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)
    return "" if done.returncode else done.stdout.strip()


def own_gateway(clone, folder):
    """A network, and a server of one's own in it that leads on: its id, and the setting ``gateway``."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/key")
    public = (folder / "key.pub").read_text()
    key = clone.api("/ssh_keys", {"name": "mine", "public_key": public})["ssh_key"]["id"]
    made = clone.api("/networks", {"name": "mine", "ip_range": RANGE})["network"]["id"]
    subnet = {"type": "cloud", "network_zone": "eu-central", "ip_range": SUBNET}
    act(clone, f"/networks/{made}/actions/add_subnet", subnet)
    wanted = {"server_type": "cpx22", "image": "ubuntu-24.04", "location": "fsn1"}
    body = {"name": "gateway", "ssh_keys": [key], "networks": [made], **wanted}
    identity = clone.api("/servers", body)["server"]["id"]
    eventually(lambda: server(clone, identity)["private_net"], 60, "the gateway is in the network")
    eventually(lambda: server(clone, identity)["status"] == "running", 60, "the gateway runs")
    address = server(clone, identity)["public_net"]["ipv4"]["ip"]
    scan = ("ssh-keyscan", "-t", "ed25519", address)
    host_key = eventually(lambda: run(*scan).partition(" ")[2], 60, "its SSH").strip()
    known = folder / "known_hosts"
    known.write_text(f"{address} {host_key}\n")
    options = ("-i", f"{folder}/key", "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes")
    assert run("ssh", *options, f"root@{address}", "sh -s", input=f"{LEAD_ON}echo leads") == "leads"
    (private,) = [at["ip"] for at in server(clone, identity)["private_net"]]
    route = {"destination": "0.0.0.0/0", "gateway": private}
    act(clone, f"/networks/{made}/actions/add_route", route)
    return made, {"ssh": address, "hostKey": host_key, "keyFile": f"{folder}/key"}


def act(clone, path, body):
    """An action, to its end."""
    action = clone.api(path, body)["action"]["id"]
    eventually(lambda: clone.api(f"/actions/{action}")["action"]["status"] == "success", 60, path)


def server(clone, identity):
    return clone.api(f"/servers/{identity}")["server"]


def test_it_works_behind_a_gateway_of_ones_own(private, tmp_path):
    private.pulumi("destroy", "--yes")
    assert private.servers() == {}
    network, gateway = own_gateway(private, tmp_path)
    ranges = {"networkCidr": RANGE, "subnetCidr": SUBNET, "clusterCidr": "10.0.128.0/17"}
    before = private.api(f"/networks/{network}")["network"]["routes"]
    private.configure(gateway=gateway, importNetwork=str(network), **ranges)
    private.dev("up")
    public = {role: found["public_net"] for role, found in private.servers().items()}
    assert set(public) == {"gateway", "control", "worker-1"}
    assert not any(public[role]["ipv4"] or public[role]["ipv6"] for role in ("control", "worker-1"))
    assert not any(word in private.dev("up").stdout for word in (" created", " updated", " replaced"))

    # from a Pod to a public address: by its node, the network's route, and the gateway
    api = balancer(private, lambda name: name.endswith("-api"))
    private.dev("kubectl", "run", "tools", "--image=ccm-from-scratch.local/tools:1")
    private.dev("kubectl", "wait", "--for=condition=Ready", "pod/tools", "--timeout=60s")
    asks = ("curl", "-sk", "--max-time", "10", "-o", "/dev/null", "-w", "%{http_code}")
    said = private.dev("kubectl", "exec", "tools", "--", *asks, f"https://{api}:6443/readyz").stdout
    assert said.strip() == "401"

    private.pulumi("destroy", "--yes")
    assert set(private.servers()) == {"gateway"}
    assert private.api(f"/networks/{network}")["network"]["routes"] == before

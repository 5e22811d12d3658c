import json
import secrets
import shutil
import subprocess
import sys
from contextlib import ExitStack
from ipaddress import IPv4Network

import pytest

from ccm_pulumi.cluster import pod_network
from ccm_pulumi.servers.nat import nat_script
from hetzner_machines import namespaces
from hetzner_machines.runner import inside
from tests import child_processes


def test_the_bridge_has_the_nodes_range_and_keeps_the_addresses_of_pods():
    bridge, portmap = json.loads(pod_network.bridge_configuration("10.244.3.0/24"))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]
    assert bridge["ipMasq"] is False
    assert portmap["capabilities"] == {"portMappings": True}


def test_only_what_leaves_the_cluster_is_translated():
    rules = pod_network.rules("10.244.0.0/16", metadata=True)
    assert "ip saddr 10.244.0.0/16 ip daddr != { 10.244.0.0/16, 224.0.0.0/4 } masquerade" in rules


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed")
@pytest.mark.parametrize(
    "rules",
    [
        pod_network.rules("10.244.0.0/16", metadata=True),
        pod_network.rules("10.244.0.0/16", metadata=False),
        nat_script(IPv4Network("10.0.0.0/8")).split(".nft <<'END'\n")[1].split("END\n")[0],
    ],
)
def test_nft_takes_the_rules(rules):
    done = child_processes.run(["nft", "--check", "-f", "-"], input=rules)
    if "Operation not permitted" in done.stderr or "cache initialization failed" in done.stderr:
        pytest.skip("nft may not be used here")
    assert done.returncode == 0, done.stderr


REACH = """
import socket, sys
def reaches(address, port):
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True
print([reaches(address, int(port)) for address, port in (one.split("/") for one in sys.argv[1:])])
"""
LISTEN = """
import socket, sys
pairs = (one.split("/") for one in sys.argv[1:])
listeners = [socket.create_server((address, int(port))) for address, port in pairs]
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.machines
def test_pods_reach_the_metadata_service_only_where_a_setting_says_so():
    """A Pod, its node and the cloud are namespaces; the node has the rules and passes packets on."""
    names = [f"test-{secrets.token_hex(3)}-{role}" for role in ("pod", "node", "cloud")]
    pod, node, cloud = names
    there = ["169.254.169.254/80", "169.254.169.254/53", "198.19.7.7/80"]
    with ExitStack() as held:
        for name in names:
            namespaces.create(name)
            held.callback(namespaces.delete, name)
        wire(node, "cni0", "10.244.3.1/24", pod, "10.244.3.9/24")
        wire(node, "eth0", "198.19.0.2/24", cloud, "198.19.0.1/24")
        lines(pod, "link set lo up", "route add default via 10.244.3.1")
        lines(node, "link set lo up", "route add default via 198.19.0.1")
        lines(cloud, "link set lo up", "addr add 169.254.169.254/32 dev lo", "addr add 198.19.7.7/32 dev lo")
        run(node, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        listening = held.enter_context(
            subprocess.Popen(
                inside(cloud, sys.executable, "-c", LISTEN, *there),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        held.callback(listening.kill)
        assert listening.stdout.readline() == "ready\n"
        for metadata in (True, False):
            run(node, "nft", "-f", "-", content=pod_network.rules("10.244.0.0/16", metadata=metadata))
            assert run(pod, sys.executable, "-c", REACH, *there).strip() == f"[{metadata}, True, True]"
            assert run(node, sys.executable, "-c", REACH, *there).strip() == "[True, True, True]"


def run(namespace: str, *command: str, content: str = "") -> str:
    done = child_processes.run(inside(namespace, *command), input=content)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(namespace: str, *commands: str) -> None:
    for command in commands:
        run(namespace, "ip", *command.split())


def wire(one: str, device: str, address: str, other: str, its: str) -> None:
    lines(one, f"link add {device} type veth peer name eth0 netns {other}")
    lines(one, f"addr add {address} dev {device}", f"link set {device} up")
    lines(other, f"addr add {its} dev eth0", "link set eth0 up")

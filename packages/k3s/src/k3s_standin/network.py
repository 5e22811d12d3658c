"""The stand-in's flannel: a network for this node's Pods, and nothing between nodes.

The cloud network's routes lead to other nodes' Pods. With ``--flannel-backend=none`` there is no network, as
in k3s: the user of the flag installs one. ``ccm_pulumi`` installs one with a bridge and rules like these;
``ccm_pulumi/cluster/pod_network.py`` says why both exist.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from k3s_standin import paths
from k3s_standin.errors import K3sError

_CONFIGURATION = paths.CNI_CONFIGURATION / "10-k3s.conflist"


def configuration(ranges: Sequence[str]) -> str:
    """The CNI configuration: a bridge with addresses of the node's ranges.

    Traffic to other nodes' Pods keeps the Pod's address, so the bridge does not masquerade. The bridge gets a
    new address when the node gets another range.
    """
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "forceAddress": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": one}] for one in ranges],
            "routes": [{"dst": "::/0" if ":" in one else "0.0.0.0/0"} for one in ranges],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "k3s", "plugins": [bridge, portmap]}, indent=2)


def masquerade_rules(cluster_cidr: str) -> str:
    """Rules for nft: traffic of Pods to the Internet gets the node's address, as a cloud requires.

    IPv6 keeps the Pod's address, as in k3s without ``--flannel-ipv6-masq``.
    """
    ranges = [text for text in cluster_cidr.split(",") if ":" not in text]
    rules = "".join(
        f"    ip saddr {source} ip daddr != {{ {', '.join(ranges)}, 224.0.0.0/4 }} masquerade\n"
        for source in ranges
    )
    chain = f"  chain postrouting {{\n    type nat hook postrouting priority srcnat;\n{rules}  }}\n"
    # The first line makes the second succeed without a table.
    return f"table ip k3s\ndelete table ip k3s\ntable ip k3s {{\n{chain}}}\n"


def remove() -> None:
    """Remove the configuration of an earlier start; the node may have another range now."""
    _CONFIGURATION.unlink(missing_ok=True)


def load(rules: str, what: str) -> None:
    """Load rules into nft; raises K3sError."""
    command = ["nft", "-f", "-"]
    try:
        done = subprocess.run(command, input=rules, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise K3sError(f"nft didn't finish loading the rules for {what}: {error}") from error
    if done.returncode != 0:
        raise K3sError(f"nft rejected the rules for {what}: {done.stderr.strip()}")


def give(ranges: Sequence[str], cluster_cidr: str) -> None:
    """Set up the network of this node's Pods; raises K3sError."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    if "," in cluster_cidr:
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
    load(masquerade_rules(cluster_cidr), "Pods' outgoing traffic")
    _CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
    _CONFIGURATION.write_text(configuration(ranges))

"""The native network of Pods: a bridge on every node, and the cloud's routes between nodes.

k3s is configured without a network, so nodes are not ready before they have this one. It needs no Pods and no
images: a configuration for containerd, and rules that masquerade packets that leave the cluster.

The sandbox's stand-in for k3s has a similar bridge and rules, in place of the flannel of k3s. The two stay
separate: neither may import the other, and the stand-in has any number of ranges.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.dynamic import CreateResult

from ..config.k3s import CNI_FILES, CNI_FOLDER
from ..lib.dynamic import ProviderResource
from ..lib.errors import InfraError
from ..lib.ssh import Host, Shell, connect, connect_first
from ..servers.probe import PROBES, Report, ServerProvider, differences, drift_of, first_nodes, unmask
from ..servers.server import host_of, hosts_of
from .ready_nodes import NOT_JOINED, POLL_SECONDS, read_nodes, view

WAIT_SECONDS = 180.0
_SCRIPT_SECONDS = 120.0  # with nftables to install

_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_RULES = "/etc/cni/pod-network.nft"
_UNIT = "pod-network.service"


def bridge_configuration(pod_cidr: str) -> str:
    """The configuration of containerd for a bridge without masquerade, and for host ports."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "forceAddress": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": ipam,
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "1.0.0", "name": "native", "plugins": plugins}, indent=2)


METADATA = "169.254.169.254"
"""Hetzner's metadata service. Any process on a server can read the server's metadata and user data."""


def rules(cluster_cidr: str, *, metadata: bool) -> str:
    """Rules for nft: what Pods send out of the cluster leaves with the node's address.

    The cloud knows the Pods' addresses inside of its network only. Without ``metadata`` Pods don't reach the
    metadata service; those on the host's network do in any case.
    """
    kept = (
        ""
        if metadata
        else f"""  chain forward {{
    type filter hook forward priority filter;
    ip saddr {cluster_cidr} ip daddr {METADATA} tcp dport 80 reject
  }}
"""
    )
    # Naming the table before it is deleted makes that succeed where there is none yet.
    return f"""table ip pod-network
delete table ip pod-network
table ip pod-network {{
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {cluster_cidr} ip daddr != {{ {cluster_cidr}, 224.0.0.0/4 }} masquerade
  }}
{kept}}}
"""


def script(pod_cidr: str, cluster_cidr: str, *, metadata: bool) -> str:
    """Gives a node its network, also after a reboot; it takes effect at once and may run again."""
    return f"""set -eu
mkdir -p /opt/cni/bin {CNI_FOLDER}
for plugin in {" ".join(_PLUGINS)}; do
  for folder in /var/lib/rancher/k3s/data/cni /var/lib/rancher/k3s/data/current/bin; do
    [ -e /opt/cni/bin/$plugin ] || [ ! -e $folder/$plugin ] || ln -s $folder/$plugin /opt/cni/bin/$plugin
  done
done
command -v nft >/dev/null || {{ apt-get -qq update && apt-get -qq install -y nftables; }} >&2
cat > {_RULES} <<'END'
{rules(cluster_cidr, metadata=metadata)}END
{unmask(_UNIT)}
cat > /etc/systemd/system/{_UNIT} <<'END'
[Unit]
Description=Addresses of Pods outside of the cluster

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env nft -f {_RULES}

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --quiet {_UNIT}
systemctl restart {_UNIT}
cat > {CNI_FOLDER}/.10-native.new <<'END'
{bridge_configuration(pod_cidr)}
END
mv {CNI_FOLDER}/.10-native.new {CNI_FOLDER}/{CNI_FILES[0]}
"""


class PodNetworkProvider(ServerProvider):
    """Gives a node its network as soon as it has a range for its Pods."""

    ignored_inputs = ("private_key", "host_key", "address", "jump", "server_id", "others", "reached")

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ends when the node has it."""
        host = host_of({**props, **props["reached"]})
        # A state of an earlier version does not say it.
        metadata = props.get("metadata", False)
        given = _give(hosts_of(props), host, props["node"], props["cluster_cidr"], metadata=metadata)
        return CreateResult(props["member_id"], {**props, "pod_cidr": asyncio.run(given)})

    def drift(self, props: Mapping[str, Any]) -> list[str] | None:
        """Compares the network with the one for the Node's range, or for the last known range."""
        own, *controls = PROBES.of([host_of({**props, **props["reached"]}), *hosts_of(props)])
        pod_cidr, cidr = range_of(props, first_nodes(controls)), props["cluster_cidr"]
        if pod_cidr is None:
            return None
        metadata = props.get("metadata", False)
        return drift_of(own, lambda report: network_drift(pod_cidr, report, cidr, metadata=metadata))


class PodNetwork(ProviderResource, provider=PodNetworkProvider):
    """The native network on a server.

    In another ``generation`` of the cluster Nodes have other ranges; with another ``installation`` of k3s the
    network is gone.
    """


def range_of(props: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]] | None) -> str | None:
    """The Pods' range of a node: of its Node, or the last known one if no API server answers. None: unknown;
    empty: the node has none.
    """
    if nodes is None:
        return props.get("pod_cidr")
    return view(nodes[props["node"]]).pod_cidr if props["node"] in nodes else ""


def network_drift(pod_cidr: str, report: Report, cluster_cidr: str, *, metadata: bool) -> list[str]:
    """The differences of a node's network. A Node without a range gets one when it joins again."""
    if not pod_cidr:
        return ["the Node has no Pod CIDR"]
    return differences(script(pod_cidr, cluster_cidr, metadata=metadata), report)


async def _give(controls: Sequence[Host], host: Host, node: str, cluster_cidr: str, *, metadata: bool) -> str:
    """Gives a node its network, and returns its range."""
    async with connect_first(controls) as shell:
        pod_cidr = await _range(shell, node)
    async with connect(host) as shell:
        commands = script(pod_cidr, cluster_cidr, metadata=metadata)
        await shell.run(commands, what="giving Pods a network", timeout=_SCRIPT_SECONDS)
    return pod_cidr


async def _range(shell: Shell, name: str) -> str:
    """The range of a node; waits until it has one."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        node = (await read_nodes(shell, deadline)).get(name)
        if node and node.pod_cidr:
            return node.pod_cidr
        if time.monotonic() > deadline:
            raise InfraError(without_range(name, joined=node is not None))
        await asyncio.sleep(POLL_SECONDS)


def without_range(name: str, *, joined: bool) -> str:
    """What to tell about a node that has no range for Pods in time."""
    lacks = "the Node has no Pod CIDR" if joined else NOT_JOINED
    return f"the node {name} has no Pod network after {WAIT_SECONDS:.0f} s: {lacks}"

"""The control servers of a cluster, as the cloud has them now.

What is asked here may be asked in the middle of a change: no state of an earlier run is believed, and a
server that somebody deleted is not in the way.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config.labels import CLUSTER, CONTROL_ROLE, NAT_ROLE, STACK
from ..lib.cloud_api import Cloud, everything, fetcher, read_server, server_runs
from ..lib.ssh import Host
from ..servers.server import control_ids, host_of, hosts_of

_OFF = ("off", "stopping", "deleting")


@dataclass(frozen=True)
class Peer:
    """Another control server.

    Attributes:
        server_id: In the cloud.
        name: Also its node's.
        public: IPv4 address; empty where it has none.
        private: Address in the network of both; empty where it has none.
        runs: Whether it is worth trying to reach it.
        jump: Through which it is reached, where it has no public address; without a key it has the peer's.
    """

    server_id: str
    name: str
    public: str
    private: str
    runs: bool
    jump: Host | None = None

    @property
    def unreachable(self) -> str:
        """Why it is not worth trying to ask it; empty when it is."""
        if not self.runs:
            return "it is off"
        if self.public or (self.private and self.jump):
            return ""
        return "it has no public address, and the cluster no NAT server"

    def host(self, private_key: str) -> Host:
        """How it is reached; host keys on the way are believed, see infra/cluster/etcd_join.py."""
        if self.public:
            return Host(self.public, private_key)
        jump = self.jump and replace(self.jump, private_key=self.jump.private_key or private_key)
        return Host(self.private, private_key, jump=jump)


def peers_of(
    cloud: Cloud,
    server_id: str,
    private_ip: str,
    labels: Mapping[str, str] | None = None,
    *,
    jump: Host | None = None,
) -> list[Peer]:
    """The other control servers of a control server's cluster, in the order in which they were made.

    Args:
        cloud: Where they are.
        server_id: Of the control server, which may be gone.
        private_ip: Its own address.
        labels: Of the cluster, for when it is gone.
        jump: Through which it is reached itself; None: the others are by the NAT server, if there is one.
    """
    own = read_server(cloud, server_id)
    common = labels_of(own["labels"]) if own else dict(labels or {})
    if not common:
        return []
    network = _network(own, private_ip) if own else None
    found = peers(_labelled(cloud, {**common, **CONTROL_ROLE}), server_id, network)
    return _with_jump(cloud, found, common, jump)


def _with_jump(cloud: Cloud, found: list[Peer], labels: Mapping[str, str], jump: Host | None) -> list[Peer]:
    if all(peer.public for peer in found):
        return found
    nat = [address for server in _labelled(cloud, {**labels, **NAT_ROLE}) if (address := _public(server))]
    through = jump or (Host(nat[0], "") if nat else None)
    return [replace(peer, jump=through) for peer in found]


def control_hosts(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """How the control servers that run are reached by what leaves their cluster, or goes with it.

    A run that has replaced each of several, one after the other, comes to what goes last with a state in
    which stand the former ones; one that failed half way leaves such a state behind. Then the cloud is asked
    for those that it has. An only one that was replaced has another cluster, in which nobody knows of what
    leaves.

    Args:
        cloud: Where they are.
        props: Of the resource, as ``hosts_of`` reads them. ``member_id`` is the server of a worker; who is
            none has ``labels`` and ``network_id`` of the cluster, a state of earlier versions no labels.

    Raises:
        CloudError: The cloud could not be asked.
    """
    known = _running_hosts(cloud, props)
    if known or len(control_ids(props)) == 1:
        return known
    jump = host_of(props).jump
    if "member_id" in props:
        now = peers_of(cloud, props["member_id"], "", jump=jump)
    else:
        labels = props.get("labels") or {}
        # a server in another network is another cluster's, whatever its labels say
        found = labels and peers(_labelled(cloud, {**labels, **CONTROL_ROLE}), "", int(props["network_id"]))
        now = _with_jump(cloud, [peer for peer in found if peer.private], labels, jump)
    return [peer.host(props["private_key"]) for peer in now if not peer.unreachable]


def _running_hosts(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """How those of the control servers that a resource names are reached that run."""
    both = zip(hosts_of(props), control_ids(props), strict=True)
    return [host for host, one in both if server_runs(cloud, one)]


def _labelled(cloud: Cloud, labels: Mapping[str, str]) -> list[Any]:
    selector = ",".join(f"{key}=={value}" for key, value in labels.items())
    query = f"&label_selector={urllib.parse.quote(selector, safe='')}"
    return everything(fetcher(cloud), "servers", query)


def _public(server: Mapping[str, Any]) -> str:
    return (server["public_net"]["ipv4"] or {}).get("ip", "")


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Of a server's labels, those that tell its cluster from others."""
    return {key: labels[key] for key in (CLUSTER, STACK) if key in labels}


def peers(servers: Sequence[Mapping[str, Any]], server_id: str, network: int | None) -> list[Peer]:
    """The others of these servers."""
    return [
        Peer(
            str(server["id"]),
            server["name"],
            _public(server),
            next((at["ip"] for at in server["private_net"] if network in (None, at["network"])), ""),
            server["status"] not in _OFF,
        )
        for server in sorted(servers, key=lambda server: server["id"])
        if str(server["id"]) != server_id
    ]


def _network(server: Mapping[str, Any], private_ip: str) -> int | None:
    return next((at["network"] for at in server["private_net"] if at["ip"] == private_ip), None)

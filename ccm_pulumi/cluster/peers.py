"""The control servers of a cluster, as the cloud's API lists them now.

A run may need them in the middle of a change. So this does not use the state of an earlier run, and a server
that was deleted by hand does no harm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config.labels import CLUSTER, CONTROL_ROLE, NAT_ROLE, STACK
from ..lib.cloud_api import Cloud, fetcher, labeled, read_server
from ..lib.ssh import Host
from ..servers.server import control_ids, host_of, hosts_of, last_rebuild

_OFF = ("off", "stopping", "deleting")


@dataclass(frozen=True)
class Peer:
    """Another control server."""

    server_id: str
    name: str  # also of its Node
    public: str  # IPv4; empty: it has none
    private: str  # in the cluster's network; empty: it has none
    runs: bool  # whether its status is not ``off``, ``stopping`` or ``deleting``
    # for a peer without a public address; without a key of its own, it has the stack's
    jump: Host | None = None

    @property
    def unreachable(self) -> str:
        """Why it can't be reached; empty if it can."""
        if not self.runs:
            return "the server is off"
        if self.public or (self.private and self.jump):
            return ""
        return "the server has no public address, and the cluster has no NAT server"

    def host(self, private_key: str) -> Host:
        """How to reach it. Any host key on the way is accepted; see etcd_join.py."""
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
    """The other control servers of a control server's cluster, ordered by ID.

    If the server was deleted, ``labels`` name the cluster. Without ``jump``, their jump host is the
    cluster's NAT server, if there is one.
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
    if jump is None and (nat := _nat_server(cloud, labels)):
        jump = Host(nat[1], "")
    return [replace(peer, jump=jump) for peer in found]


def _nat_server(cloud: Cloud, labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Its ID and public address; None if the cluster has no NAT server."""
    servers = _labelled(cloud, {**labels, **NAT_ROLE})
    return next(((str(server["id"]), ip) for server in servers if (ip := _public(server))), None)


def through_current_nat(cloud: Cloud, host: Host, labels: Mapping[str, str]) -> Host:
    """A host from the state of a resource that is deleted, through the NAT server that its cluster has now.

    That state may have the former address of a replaced NAT server, or the former host key of a rebuilt one.
    Then any host key of the NAT server is accepted. ``labels`` name the cluster. The user's own gateway isn't
    a server of the cluster, so such a host is returned as it is.
    """
    if not (labels and host.jump) or host.jump.key_file:
        return host
    nat = _nat_server(cloud, labels)
    if nat and (nat[1] != host.jump.address or last_rebuild(cloud, nat[0])):
        return replace(host, jump=Host(nat[1], host.private_key))
    return host


def control_hosts(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """How a resource that is deleted reaches the control servers that run.

    A run that replaces several control servers one by one deletes some resources last. Their state still
    names the previous servers; a run that fails half way leaves such a state behind. Then this asks the cloud
    for the current ones. A replaced single control plane is a new cluster, which does not know the members of
    the previous one.

    A worker's ``props`` have ``member_id``, its server. Others have ``labels`` and ``network_id`` of the
    cluster; the state of an earlier version has no labels.
    """
    known = _running_hosts(cloud, props)
    if known or len(control_ids(props)) == 1:
        return known
    # a server in another network belongs to another cluster, whatever its labels are
    labels, network = props.get("labels") or {}, None
    if "member_id" not in props:
        network = int(props["network_id"])
    elif worker := read_server(cloud, props["member_id"]):
        labels = labels_of(worker["labels"])
    if not labels:
        return []
    found = peers(_labelled(cloud, {**labels, **CONTROL_ROLE}), "", network)
    jump = through_current_nat(cloud, host_of(props), labels).jump
    now = _with_jump(cloud, [peer for peer in found if network is None or peer.private], labels, jump)
    return [peer.host(props["private_key"]) for peer in now if not peer.unreachable]


def _running_hosts(cloud: Cloud, props: Mapping[str, Any]) -> list[Host]:
    """The running ones of the control servers that a resource names."""
    both = zip(hosts_of(props), control_ids(props), strict=True)
    read = [(host, read_server(cloud, server_id)) for host, server_id in both]
    return [
        through_current_nat(cloud, host, labels_of(server["labels"]))
        for host, server in read
        if server and server["status"] == "running"
    ]


def _labelled(cloud: Cloud, labels: Mapping[str, str]) -> list[Any]:
    return labeled(fetcher(cloud), "servers", labels)


def _public(server: Mapping[str, Any]) -> str:
    return (server["public_net"]["ipv4"] or {}).get("ip", "")


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Those labels of a server that identify its cluster."""
    return {key: labels[key] for key in (CLUSTER, STACK) if key in labels}


def peers(servers: Sequence[Mapping[str, Any]], server_id: str, network: int | None) -> list[Peer]:
    """The servers as peers, without the one with the ID."""
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

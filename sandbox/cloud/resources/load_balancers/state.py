"""What is kept of a load balancer."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from sandbox.cloud.catalog import LOCATIONS
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.records import index, record, timestamp
from sandbox.cloud.resources.certificates.state import USERS_OF
from sandbox.cloud.resources.load_balancer_types import find_load_balancer_type
from sandbox.cloud.resources.load_balancers.resolve import Target, health_of, selected_servers
from sandbox.cloud.resources.networks.state import Holder, addresses_of, networks_of
from sandbox.cloud.resources.servers.state import LOAD_BALANCERS_OF, Server

INCLUDED_TRAFFIC = 20 * 1024**4


@record
class LoadBalancer(Holder):
    """A load balancer.

    Attributes:
        type: name of its type.
        location: name.
        algorithm: round_robin or least_connections.
        ipv4: public address.
        ipv6: public address.
        public_enabled: whether it answers on them.
        dns_ptr: reverse names by address.
        attachments: its place in a network, if any.
        services: as the API shows them.
        targets: as chosen, label selectors not resolved.
    """

    KIND: ClassVar[str] = "load_balancer"
    FIRST_ID: ClassVar[int] = 3_000_001

    type: str
    location: str
    ipv4: str
    ipv6: str
    algorithm: str = "round_robin"
    public_enabled: bool = True
    dns_ptr: dict[str, str] = msgspec.field(default_factory=dict)
    services: list[dict[str, Any]] = msgspec.field(default_factory=list)
    targets: list[Target] = msgspec.field(default_factory=list)
    protected: bool = False


index("network_members", LoadBalancer.KIND)(networks_of)
index("network_addresses", LoadBalancer.KIND)(addresses_of)


@index("public_ipv4", LoadBalancer.KIND)
def _addresses(balancer: LoadBalancer) -> list[str]:
    return [balancer.ipv4]


def _of_server(cloud: Cloud, server: Server) -> list[Any]:
    return [
        balancer.id
        for balancer in cloud.store.of(LoadBalancer, server.project)
        if any(target.server == server.id for target in balancer.targets)
    ]


def _users_of_certificate(cloud: Cloud, certificate: int) -> list[int]:
    return [
        balancer.id
        for balancer in cloud.store.all(LoadBalancer)
        if any(certificate in certificates_of(service) for service in balancer.services)
    ]


def certificates_of(service: dict[str, Any]) -> list[int]:
    """Ids of the certificates that a service uses."""
    found: list[int] = service.get("http", {}).get("certificates", [])
    return found


LOAD_BALANCERS_OF.append(_of_server)
USERS_OF.append(_users_of_certificate)


def load_balancer_wire(cloud: Cloud, balancer: LoadBalancer) -> dict[str, Any]:
    """The load balancer as the API shows it."""
    attached = [a for a in balancer.attachments if a.status != "attaching"]
    return {
        "id": balancer.id,
        "name": balancer.name,
        "public_net": {
            "enabled": balancer.public_enabled,
            "ipv4": {"ip": balancer.ipv4, "dns_ptr": balancer.dns_ptr.get(balancer.ipv4)},
            "ipv6": {"ip": balancer.ipv6, "dns_ptr": balancer.dns_ptr.get(balancer.ipv6)},
        },
        "private_net": [{"network": a.network, "ip": a.ip} for a in attached],
        "location": LOCATIONS[balancer.location].wire(),
        "load_balancer_type": find_load_balancer_type(balancer.type).wire(),
        "protection": {"delete": balancer.protected},
        "labels": balancer.labels,
        "created": timestamp(balancer.created),
        "services": balancer.services,
        "targets": [_target_wire(cloud, balancer, target) for target in balancer.targets],
        "algorithm": {"type": balancer.algorithm},
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": INCLUDED_TRAFFIC,
    }


def _target_wire(cloud: Cloud, balancer: LoadBalancer, target: Target) -> dict[str, Any]:
    ports = [service["listen_port"] for service in balancer.services]
    network = balancer.attachments[0].network if balancer.attachments else None
    if target.type == "ip":
        health = health_of(cloud, balancer.id, ports, target.ip)
        return {"type": "ip", "ip": {"ip": target.ip}, "health_status": health}
    servers = selected_servers(cloud, balancer.project, target)
    wires = [
        {
            "type": "server",
            "server": {"id": server.id},
            "health_status": health_of(
                cloud, balancer.id, ports, target.address_of(cloud, server, network), server
            ),
            "use_private_ip": target.use_private_ip,
        }
        for server in servers
    ]
    if target.type == "server":
        return wires[0]
    return {
        "type": "label_selector",
        "label_selector": {"selector": target.selector},
        "targets": wires,
        "use_private_ip": target.use_private_ip,
    }

"""What is kept of a load balancer."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from sandbox.cloud.api.catalog import LOCATIONS
from sandbox.cloud.api.resource import Resource
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.resources.load_balancer_types import LOAD_BALANCER_TYPES, load_balancer_type_wire
from sandbox.cloud.resources.load_balancers.resolve import Target, health_of, selected_servers
from sandbox.cloud.resources.networks.state import Holder, addresses_of, networks_of
from sandbox.cloud.state.records import index, record

INCLUDED_TRAFFIC = 20 * 1024**4


@record
class LoadBalancer(Holder):
    """A load balancer.

    Attributes:
        type: Name of its type.
        location: Name.
        algorithm: Either ``round_robin`` or ``least_connections``.
        ipv4: Public address.
        ipv6: Public address.
        public_enabled: Whether it answers on them.
        dns_ptr: Reverse names by address.
        attachments: Its place in a network, if any.
        services: As the API shows them.
        targets: As chosen, label selectors not resolved.
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

    @property
    def network(self) -> int | None:
        """The network that it is attached to, or None."""
        return self.attachments[0].network if self.attachments else None


index("network_members", LoadBalancer.KIND)(networks_of)
index("network_addresses", LoadBalancer.KIND)(addresses_of)


@index("public_ipv4", LoadBalancer.KIND)
def _addresses(balancer: LoadBalancer) -> list[str]:
    return [balancer.ipv4]


@index("target", LoadBalancer.KIND)
def _target_servers(balancer: LoadBalancer) -> set[int]:
    return {target.server for target in balancer.targets if target.server is not None}


@index("certificate", LoadBalancer.KIND)
def _certificates(balancer: LoadBalancer) -> set[int]:
    return {identity for service in balancer.services for identity in certificates_of(service)}


def certificates_of(service: dict[str, Any]) -> list[int]:
    """Ids of the certificates that a service uses."""
    found: list[int] = service.get("http", {}).get("certificates", [])
    return found


def load_balancer_wire(cloud: Cloud, balancer: LoadBalancer) -> dict[str, Any]:
    """The load balancer as the API shows it."""
    attached = [a for a in balancer.attachments if a.status != "attaching"]
    return {
        **balancer.common_wire(),
        "public_net": {
            "enabled": balancer.public_enabled,
            "ipv4": {"ip": balancer.ipv4, "dns_ptr": balancer.dns_ptr.get(balancer.ipv4)},
            "ipv6": {"ip": balancer.ipv6, "dns_ptr": balancer.dns_ptr.get(balancer.ipv6)},
        },
        "private_net": [{"network": a.network, "ip": a.ip} for a in attached],
        "location": LOCATIONS[balancer.location].wire(),
        "load_balancer_type": load_balancer_type_wire(LOAD_BALANCER_TYPES.find(balancer.type)),
        "protection": {"delete": balancer.protected},
        "services": balancer.services,
        "targets": [_target_wire(cloud, balancer, target) for target in balancer.targets],
        "algorithm": {"type": balancer.algorithm},
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": INCLUDED_TRAFFIC,
    }


def _target_wire(cloud: Cloud, balancer: LoadBalancer, target: Target) -> dict[str, Any]:
    ports = [service["listen_port"] for service in balancer.services]
    if target.type == "ip":
        health = health_of(cloud, balancer.id, ports, target.ip)
        return {"type": "ip", "ip": {"ip": target.ip}, "health_status": health}
    servers = selected_servers(cloud, balancer.project, target)
    wires = [
        {
            "type": "server",
            "server": {"id": server.id},
            "health_status": health_of(
                cloud, balancer.id, ports, target.address_of(cloud, server, balancer.network), server
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


def name_problem(name: str) -> str:
    """What is wrong with a load balancer's name, or ""."""
    return "must not begin or end with a space" if name != name.strip() else ""


LOAD_BALANCERS = Resource(
    "load_balancers",
    LoadBalancer,
    load_balancer_wire,
    name_problem=name_problem,
    protection="protected",
    delete_status=201,  # official clients expect an action since the autumn of 2026
    series={
        "open_connections": ("open_connections",),
        "connections_per_second": ("connections_per_second",),
        "requests_per_second": ("requests_per_second",),
        "bandwidth": ("bandwidth.in", "bandwidth.out"),
    },
)
LOAD_BALANCERS.register()

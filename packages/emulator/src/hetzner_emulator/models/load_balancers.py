"""What is kept of a load balancer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.load_balancer_targets import Target, health_of, selected_servers
from hetzner_emulator.models.load_balancer_types import LOAD_BALANCER_TYPES, load_balancer_type_wire
from hetzner_emulator.models.networks import Holder, addresses_of, networks_of
from hetzner_emulator.models.primary_ips import PrimaryIp
from hetzner_emulator.state.records import index, record
from hetzner_emulator.wire.fields import Fields

INCLUDED_TRAFFIC = 20 * 1024**4


class Setting(NamedTuple):
    """A field that the request for a load balancer and the action ``change_<name>`` set alike.

    Attributes:
        name: The field of :class:`LoadBalancer`, and of the API's.
        read: The method of :class:`Fields` that reads it.
        allowed: What that is given besides the name; ``default`` counts where a new load balancer has none.
        key: The API's field is an object with this one member; empty = it is the value itself.
    """

    name: str
    read: Callable[..., Any]
    allowed: dict[str, Any]
    key: str = ""

    def created(self, fields: Fields) -> Any:
        """The value in a request for a new load balancer."""
        inner = fields.object(self.name) if self.key else fields
        return self.read(inner, self.key or self.name, **self.allowed)

    def changed(self, fields: Fields) -> Any:
        """The value in the body of the action."""
        return self.read(fields, self.key or self.name, **self.allowed, required=True)

    def wire(self, balancer: LoadBalancer) -> Any:
        """The field as the API shows it."""
        value = getattr(balancer, self.name)
        return {self.key: value} if self.key else value


SETTINGS = (
    Setting(
        "algorithm",
        Fields.choice,
        {"allowed": ("round_robin", "least_connections"), "default": "round_robin"},
        key="type",
    ),
)


@record
class LoadBalancer(Holder):
    """A load balancer.

    Attributes:
        type: Name of its type.
        location: Name.
        algorithm: Either ``round_robin`` or ``least_connections``.
        ipv4: Public address.
        ipv6: Public address.
        primary_ips: Ids by ``ipv4`` and ``ipv6``; an address that Hetzner manages has none.
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
    primary_ips: dict[str, int] = msgspec.field(default_factory=dict)
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
            "ipv4": _address(cloud, balancer, "ipv4", balancer.ipv4),
            "ipv6": _address(cloud, balancer, "ipv6", balancer.ipv6),
        },
        "private_net": [{"network": a.network, "ip": a.ip} for a in attached],
        "location": LOCATIONS[balancer.location].wire(),
        "load_balancer_type": load_balancer_type_wire(LOAD_BALANCER_TYPES.find(balancer.type)),
        "protection": {"delete": balancer.protected},
        "services": balancer.services,
        "targets": [_target_wire(cloud, balancer, target) for target in balancer.targets],
        **{one.name: one.wire(balancer) for one in SETTINGS},
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": INCLUDED_TRAFFIC,
    }


def primary_ip_of(cloud: Cloud, balancer: LoadBalancer, family: str) -> PrimaryIp | None:
    """The primary IP that is one of its addresses; None where Hetzner manages that."""
    return cloud.store.find(PrimaryIp, balancer.primary_ips.get(family, 0))


def _address(cloud: Cloud, balancer: LoadBalancer, family: str, ip: str) -> dict[str, Any]:
    primary = primary_ip_of(cloud, balancer, family)
    names = balancer.dns_ptr if primary is None else primary.dns_ptr
    blocked = primary is not None and primary.blocked
    return {"id": primary and primary.id, "ip": ip, "blocked": blocked, "dns_ptr": names.get(ip)}


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

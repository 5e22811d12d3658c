"""The record of a load balancer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.catalogs import LOAD_BALANCER_TYPES, load_balancer_type_wire
from hetzner_emulator.models.networks import Holder
from hetzner_emulator.models.primary_ips import PrimaryIp
from hetzner_emulator.models.servers import Server, address, selected
from hetzner_emulator.state.records import Indexes, record

INCLUDED_TRAFFIC = 20 * 1024**4
ALGORITHMS = ("round_robin", "least_connections")


class Target(msgspec.Struct, frozen=True):
    """A target: a server by ID, servers by label, or an address."""

    type: str
    server: int | None = None
    selector: str = ""
    ip: str = ""
    use_private_ip: bool = False

    def same(self, other: Target) -> bool:
        """Whether both are the same target; one may use the private and one the public address."""
        return msgspec.structs.replace(self, use_private_ip=other.use_private_ip) == other

    def address_of(self, cloud: Cloud, server: Server, network: int | None) -> str | None:
        """The address of a server for this target, or None."""
        if self.use_private_ip:
            attachment = None if network is None else server.attachment(network)
            return attachment.ip if attachment else None
        ipv4 = address(cloud, server.ipv4)
        return ipv4.ip if ipv4 else None


@record
class LoadBalancer(Holder):
    """A load balancer."""

    KIND: ClassVar[str] = "load_balancer"
    FIRST_ID: ClassVar[int] = 3_000_001
    INDEXES: ClassVar[Indexes] = {
        **Holder.INDEXES,
        "public_ipv4": lambda balancer: [balancer.ipv4],
        "target": lambda balancer: {t.server for t in balancer.targets if t.server is not None},
        "certificate": lambda balancer: {
            c for service in balancer.services for c in certificates_of(service)
        },
    }

    type: str  # name of its type
    location: str  # name
    ipv4: str
    ipv6: str
    algorithm: str = "round_robin"  # one of `ALGORITHMS`
    public_enabled: bool = True  # whether it accepts connections to them
    # IDs by `ipv4` and `ipv6`; without an address that Hetzner manages
    primary_ips: dict[str, int] = msgspec.field(default_factory=dict)
    dns_ptr: dict[str, str] = msgspec.field(default_factory=dict)  # reverse names by address
    services: list[dict[str, Any]] = msgspec.field(default_factory=list)  # as the API shows them
    targets: list[Target] = msgspec.field(default_factory=list)  # as in the request, with label selectors
    protected: bool = False

    @property
    def network(self) -> int | None:
        """ID of its network, or None."""
        return self.attachments[0].network if self.attachments else None


def certificates_of(service: dict[str, Any]) -> list[int]:
    """Ids of the certificates that a service uses."""
    found: list[int] = service.get("http", {}).get("certificates", [])
    return found


def selected_servers(cloud: Cloud, project: str, target: Target) -> list[Server]:
    """The servers of a target now."""
    if target.type == "server":
        server = cloud.store.find(Server, target.server or 0)
        return [] if server is None else [server]
    if target.type == "label_selector":
        return selected(cloud, project, target.selector)
    return []


def _health(
    cloud: Cloud, balancer: int, ports: Iterable[int], ip: str | None, server: Server | None = None
) -> list[dict[str, Any]]:
    """Health of an address by listen port, as the API shows it, with the reason if it is unhealthy."""
    known, failures = cloud.backend.target_health(balancer), cloud.backend.target_failures(balancer)
    off = server is not None and server.status == "off"
    shown = []
    for port in ports:
        key = (ip or "", port)
        entry = {"listen_port": port, "status": "unhealthy" if off else known.get(key, "unknown")}
        if entry["status"] == "unhealthy":
            detail, code = failures.get(key, ("layer4_timeout" if off else "unspecified", None))
            entry |= {"detail": detail} | ({} if code is None else {"http_status_code": code})
        shown.append(entry)
    return shown


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
        "algorithm": {"type": balancer.algorithm},
        "outgoing_traffic": 0,
        "ingoing_traffic": 0,
        "included_traffic": INCLUDED_TRAFFIC,
    }


def primary_ip_of(cloud: Cloud, balancer: LoadBalancer, family: str) -> PrimaryIp | None:
    """The primary IP of a family, or None if Hetzner manages the address."""
    return cloud.store.find(PrimaryIp, balancer.primary_ips.get(family, 0))


def _address(cloud: Cloud, balancer: LoadBalancer, family: str, ip: str) -> dict[str, Any]:
    primary = primary_ip_of(cloud, balancer, family)
    names = balancer.dns_ptr if primary is None else primary.dns_ptr
    blocked = primary is not None and primary.blocked
    return {"id": primary and primary.id, "ip": ip, "blocked": blocked, "dns_ptr": names.get(ip)}


def _target_wire(cloud: Cloud, balancer: LoadBalancer, target: Target) -> dict[str, Any]:
    ports = [service["listen_port"] for service in balancer.services]
    if target.type == "ip":
        health = _health(cloud, balancer.id, ports, target.ip)
        return {"type": "ip", "ip": {"ip": target.ip}, "health_status": health}
    servers = selected_servers(cloud, balancer.project, target)
    wires = [
        {
            "type": "server",
            "server": {"id": server.id},
            "health_status": _health(
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

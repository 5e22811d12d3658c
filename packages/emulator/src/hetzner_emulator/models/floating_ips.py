"""The record of a floating IP."""

from typing import Any, ClassVar

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.models.primary_ips import dns_ptr_wire
from hetzner_emulator.state.records import Indexes, Record, record


@record
class FloatingIp(Record):
    """A public address that the network routes to a server, which must configure it."""

    KIND: ClassVar[str] = "floating_ip"
    FIRST_ID: ClassVar[int] = 22_000_001
    INDEXES: ClassVar[Indexes] = {
        "public_ipv4": lambda ip: [ip.ip] if ip.type == "ipv4" else [],
        "floating_ips_of": lambda ip: {ip.server} - {None},
    }

    type: str  # either `ipv4` or `ipv6`
    ip: str  # an address, or a /64 network
    home_location: str  # name
    description: str = ""
    server: int | None = None  # ID of the server that it is assigned to, or None
    dns_ptr: dict[str, str] = msgspec.field(default_factory=dict)  # reverse names by address
    protected: bool = False


def floating_ip_wire(_cloud: Cloud, ip: FloatingIp) -> dict[str, Any]:
    """The floating IP as the API shows it."""
    return {
        **ip.common_wire("description", "ip", "type", "server"),
        "dns_ptr": dns_ptr_wire(ip),
        "home_location": LOCATIONS[ip.home_location].wire(),
        "blocked": False,
        "protection": {"delete": ip.protected},
    }


def floating_ips_of(cloud: Cloud, server: int) -> list[FloatingIp]:
    """The floating IPs that are assigned to a server, the oldest first."""
    found = cloud.store.lookup("floating_ips_of", server)
    return sorted((ip for ip in found if isinstance(ip, FloatingIp)), key=lambda ip: ip.id)

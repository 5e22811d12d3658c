"""The record of a primary IP, and what floating IPs share with it."""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, ClassVar, Protocol

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.state.records import Indexes, Record, record
from hetzner_emulator.wire.fields import Fields


@record
class PrimaryIp(Record):
    """A public address that a server or a load balancer can have."""

    KIND: ClassVar[str] = "primary_ip"
    FIRST_ID: ClassVar[int] = 6_000_001
    INDEXES: ClassVar[Indexes] = {
        "public_ipv4": lambda ip: [ip.ip] if ip.type == "ipv4" else [],
        "assignee": lambda ip: {ip.assignee} - {None},
    }

    type: str  # either `ipv4` or `ipv6`
    ip: str  # an address, or a /64 network
    location: str
    auto_delete: bool = False
    assignee: int | None = None  # ID of its server or load balancer, or None
    assignee_type: str = "server"  # what that is: `server` or `load_balancer`
    blocked: bool = False  # whether Hetzner has blocked the address
    dns_ptr: dict[str, str] = msgspec.field(default_factory=dict)  # reverse names by address
    protected: bool = False


class Named(Protocol):
    """A record of an address, or of a /64 network, with reverse names by address."""

    type: str
    dns_ptr: dict[str, str]


def default_name(ipv4: str) -> str:
    """The reverse name that Hetzner gives a new address."""
    return f"static.{'.'.join(reversed(ipv4.split('.')))}.clients.your-server.de"


def primary_ip_wire(_cloud: Cloud, ip: PrimaryIp) -> dict[str, Any]:
    """The primary IP as the API shows it."""
    return {
        **ip.common_wire("blocked", "ip", "type", "auto_delete"),
        "location": LOCATIONS[ip.location].wire(),
        "dns_ptr": dns_ptr_wire(ip),
        "protection": {"delete": ip.protected},
        "assignee_type": "unassigned" if ip.assignee is None else ip.assignee_type,
        "assignee_id": ip.assignee,
    }


def dns_ptr_wire(ip: Named) -> list[dict[str, str]]:
    """The reverse names as the API shows them."""
    return [{"ip": address, "dns_ptr": name} for address, name in ip.dns_ptr.items()]


def primary_ips_for(
    cloud: Cloud, project: str, wanted: Mapping[str, int], location: str
) -> dict[str, PrimaryIp]:
    """A new server's addresses by family, which the caller stores; 0 in ``wanted`` requests a new address."""
    present = {
        family: present_ip(cloud, project, identity, family, location)
        for family, identity in wanted.items()
        if identity
    }
    return {
        family: present.get(family) or new_primary_ip(cloud, project, family, location, auto_delete=True)
        for family in wanted
    }


def present_ip(cloud: Cloud, project: str, identity: int, kind: str, location: str) -> PrimaryIp:
    """An existing address for a new server or load balancer in a location, or ApiError if unusable."""
    ip = cloud.store.get(PrimaryIp, project, identity)
    cloud.actions.check_free("primary_ip", ip.id)
    if ip.type != kind:
        raise ApiError("primary_ip_version_mismatch", "the specified primary IP has the wrong IP version")
    if ip.assignee is not None:
        raise ApiError("primary_ip_assigned", "the specified primary IP is already assigned")
    if ip.location != location:
        text = "the specified primary IP is in a different location"
        raise ApiError("primary_ip_datacenter_mismatch", text)
    if ip.blocked:
        raise ApiError("invalid_input", "the specified primary IP is blocked")
    return ip


def new_primary_ip(
    cloud: Cloud, project: str, kind: str, location: str, name: str = "", *, auto_delete: bool = False
) -> PrimaryIp:
    """Allocate a new address, which the caller stores (``resource_unavailable``, LimitExceeded)."""
    cloud.check_limit("primary_ips", cloud.store.count(PrimaryIp, project))
    address = cloud.addresses.new_ipv4() if kind == "ipv4" else cloud.addresses.new_ipv6()
    identity = cloud.store.new_id(PrimaryIp)
    return PrimaryIp(
        id=identity,
        project=project,
        name=name or f"primary_ip-{identity}",
        created=cloud.now(),
        type=kind,
        ip=address,
        location=location,
        auto_delete=auto_delete,
        dns_ptr={address: default_name(address)} if kind == "ipv4" else {},
    )


def set_name(ip: Named, address: str, name: str | None) -> None:
    """Set a reverse name; None restores the default (IPv6 has none)."""
    names = {key: value for key, value in ip.dns_ptr.items() if key != address}
    if name is None and ip.type == "ipv4":
        name = default_name(address)
    if name is not None:
        names[address] = name
    ip.dns_ptr = names


def read_dns_ptr(fields: Fields, own: set[str]) -> tuple[str, str | None]:
    """The fields ``ip``, in its shortest form, and ``dns_ptr``; ``fields`` collects what is invalid.

    ``ip`` must be in ``own``, which contains addresses and /64 networks.
    """
    text = fields.text("ip", required=True)
    name = fields.text("dns_ptr") if "dns_ptr" in fields else None
    address = _parse(text)
    if text and (address is None or not any(address in ip_network(candidate) for candidate in own)):
        fields.wrong("ip", f"'{text}' does not belong to the resource")
    return str(address), name


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None

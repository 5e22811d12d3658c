"""What is kept of a primary IP."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, ClassVar

import msgspec

from hetzner_emulator.api.catalog import LOCATIONS
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.floating_ips import FloatingIp
from hetzner_emulator.state.records import Record, index, record


@record
class PrimaryIp(Record):
    """A public address that a server or a load balancer can have.

    Attributes:
        type: Either ``ipv4`` or ``ipv6``.
        ip: An address, or a /64 network.
        dns_ptr: Reverse names by address.
        assignee: Id of its server or load balancer, or None.
        assignee_type: What that is: ``server`` or ``load_balancer``.
        blocked: Whether Hetzner has blocked the address.
    """

    KIND: ClassVar[str] = "primary_ip"
    FIRST_ID: ClassVar[int] = 6_000_001

    type: str
    ip: str
    location: str
    auto_delete: bool = False
    assignee: int | None = None
    assignee_type: str = "server"
    blocked: bool = False
    dns_ptr: dict[str, str] = msgspec.field(default_factory=dict)
    protected: bool = False


@index("public_ipv4", PrimaryIp.KIND)
def _addresses(ip: PrimaryIp) -> list[str]:
    return [ip.ip] if ip.type == "ipv4" else []


@index("assignee", PrimaryIp.KIND)
def _assignees(ip: PrimaryIp) -> list[int]:
    return [] if ip.assignee is None else [ip.assignee]


def default_name(ipv4: str) -> str:
    """The reverse name that Hetzner gives an address."""
    return ".".join(reversed(str(IPv4Address(ipv4)).split("."))).join(("static.", ".clients.your-server.de"))


def primary_ip_wire(_cloud: Cloud, ip: PrimaryIp) -> dict[str, Any]:
    """The primary IP as the API shows it."""
    return {
        **ip.common_wire(),
        "blocked": ip.blocked,
        "location": LOCATIONS[ip.location].wire(),
        "ip": ip.ip,
        "dns_ptr": [{"ip": address, "dns_ptr": name} for address, name in ip.dns_ptr.items()],
        "protection": {"delete": ip.protected},
        "type": ip.type,
        "auto_delete": ip.auto_delete,
        "assignee_type": "unassigned" if ip.assignee is None else ip.assignee_type,
        "assignee_id": ip.assignee,
    }


def present_ip(cloud: Cloud, project: str, identity: int, kind: str, location: str) -> PrimaryIp:
    """A primary IP that a new server or load balancer asks for.

    Args:
        cloud: The whole cloud.
        project: Whose it is.
        identity: Its id.
        kind: The type that is asked for: ``ipv4`` or ``ipv6``.
        location: Of the server or load balancer.

    Raises:
        ApiError: It is not there, or it can't be given to that one.
    """
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
    """Take a fresh address; the caller keeps it by ``store.put``.

    Raises:
        ApiError: ``resource_unavailable``; no address is left.
        LimitExceeded: The project has too many.
    """
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


def set_name(ip: PrimaryIp | FloatingIp, address: str, name: str | None) -> None:
    """Set a reverse name; None brings the default back (IPv6 has none)."""
    names = {key: value for key, value in ip.dns_ptr.items() if key != address}
    if name is None and ip.type == "ipv4":
        name = default_name(address)
    if name is not None:
        names[address] = name
    ip.dns_ptr = names

"""The records of networks and of their members."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any, ClassVar, NamedTuple

import msgspec

from hetzner_emulator.backend import NetworkSpec, Route
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.state.records import Indexes, Record, record
from hetzner_emulator.state.store import Store


class Subnet(msgspec.Struct, frozen=True):
    """A part of a network's range."""

    type: str
    ip_range: str
    network_zone: str
    vswitch_id: int | None = None


class NetworkRoute(msgspec.Struct, frozen=True):
    """A destination behind a member."""

    destination: str
    gateway: str


class Attachment(msgspec.Struct):
    """The attachment of a server or load balancer to a network."""

    network: int
    ip: str
    alias_ips: list[str] = msgspec.field(default_factory=list)
    mac_address: str = ""
    status: str = "ok"  # attaching (which the API hides), ok, updating or detaching
    # alias addresses that an action is adding; they are reserved until it ends
    coming: list[str] = msgspec.field(default_factory=list)


class Member(NamedTuple):
    """A server or load balancer, and its attachment."""

    type: str
    id: int
    attachment: Attachment


class Holder(Record, kw_only=True):
    """An object that can be attached to networks."""

    INDEXES: ClassVar[Indexes] = {
        "network_members": lambda holder: [each.network for each in holder.attachments],
        "network_addresses": lambda holder: [
            (each.network, ip)
            for each in holder.attachments
            for ip in {each.ip, *each.alias_ips, *each.coming}
        ],
    }

    attachments: list[Attachment] = msgspec.field(default_factory=list)


@record
class Network(Record):
    """A private network."""

    KIND: ClassVar[str] = "network"
    FIRST_ID: ClassVar[int] = 2_000_001

    ip_range: str
    subnets: list[Subnet] = msgspec.field(default_factory=list)
    routes: list[NetworkRoute] = msgspec.field(default_factory=list)
    protected: bool = False
    expose_routes_to_vswitch: bool = False

    @property
    def gateway(self) -> str:
        """The router: the first address of the range."""
        return str(IPv4Network(self.ip_range).network_address + 1)


def members(store: Store, network_id: int) -> list[Member]:
    """The members, including those that an action is attaching."""
    return [
        Member(holder.KIND, holder.id, attachment)
        for holder in store.lookup("network_members", network_id)
        if isinstance(holder, Holder)
        for attachment in holder.attachments
        if attachment.network == network_id
    ]


def network_wire(cloud: Cloud, network: Network) -> dict[str, Any]:
    """The network as the API shows it."""
    attached = [m for m in members(cloud.store, network.id) if m.attachment.status != "attaching"]
    return {
        **network.common_wire("ip_range", "expose_routes_to_vswitch"),
        "subnets": [subnet_wire(network, subnet) for subnet in network.subnets],
        "routes": msgspec.to_builtins(network.routes),
        "servers": [member.id for member in attached if member.type == "server"],
        "load_balancers": [member.id for member in attached if member.type == "load_balancer"],
        "protection": {"delete": network.protected},
    }


def subnet_wire(network: Network, subnet: Subnet) -> dict[str, Any]:
    """The subnet as the API shows it."""
    values = msgspec.structs.asdict(subnet)
    vswitch = values.pop("vswitch_id")
    return {**values, "gateway": network.gateway, "vswitch_id": vswitch}


def network_spec(network: Network) -> NetworkSpec:
    """The network as the backend sees it."""
    return NetworkSpec(
        id=network.id,
        name=network.name,
        ip_range=network.ip_range,
        subnets=tuple(subnet.ip_range for subnet in network.subnets),
        routes=tuple(Route(route.destination, route.gateway) for route in network.routes),
    )


def subnet_of(network: Network, ip: str) -> str:
    """Range of the subnet that contains an address, or "" if the network has no such subnet."""
    address = IPv4Address(ip)
    return next((s.ip_range for s in network.subnets if address in IPv4Network(s.ip_range)), "")

"""Rules for ranges and addresses in networks, and for their members."""

import socket
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network

from hetzner_emulator.api.call import Call
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, Conflict, InvalidInput
from hetzner_emulator.models.networks import Attachment, Network, NetworkRoute, Subnet
from hetzner_emulator.wire.fields import Fields

PRIVATE = tuple(IPv4Network(n) for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
METADATA_GATEWAY = IPv4Address("172.31.1.1")
EVERYTHING = IPv4Network("0.0.0.0/0")
SUBNET_PREFIX = 24
MAX_PREFIX = 30
MAX_NETWORKS = 3


def range_problem(ip_range: IPv4Network) -> str:
    """Describe what is invalid in a network's range; "" if it is valid."""
    if not is_private(ip_range):
        return "must be a private IPv4 range of RFC 1918"
    return "must have a prefix length of at most 24" if ip_range.prefixlen > SUBNET_PREFIX else ""


def is_private(network: IPv4Network) -> bool:
    """Whether the range is part of a range of RFC 1918."""
    return any(network.subnet_of(private) for private in PRIVATE)


def subnet_problem(
    network: IPv4Network, present: Iterable[Subnet], subnet: IPv4Network, routes: Iterable[NetworkRoute] = ()
) -> str:
    """Describe what is invalid in a new subnet; "" if it is valid."""
    if not subnet.subnet_of(network):
        return "network must contain subnet: the subnet is not in the network's ip_range"
    if subnet.prefixlen > MAX_PREFIX:
        return f"must have a prefix length of at most {MAX_PREFIX}"
    if any(subnet.overlaps(IPv4Network(other.ip_range)) for other in present):
        return "overlaps with another subnet"
    if any(subnet.overlaps(destination) for destination in destinations(routes)):
        return "overlaps with a route"
    return ""


def destinations(routes: Iterable[NetworkRoute]) -> list[IPv4Network]:
    """Destinations of routes, without the default route."""
    found = [IPv4Network(route.destination) for route in routes]
    return [destination for destination in found if destination != EVERYTHING]


def free_subnet(
    network: IPv4Network, present: Sequence[Subnet], routes: Iterable[NetworkRoute] = ()
) -> IPv4Network:
    """The first free /24, or the whole range if it is smaller; raises ``no_subnet_available``."""
    taken = [*(IPv4Network(subnet.ip_range) for subnet in present), *destinations(routes)]
    for candidate in network.subnets(new_prefix=max(SUBNET_PREFIX, network.prefixlen)):
        if not any(candidate.overlaps(other) for other in taken):
            return candidate
    raise ApiError("no_subnet_available", "no free /24 range is left in the network")


def route_problems(
    network: IPv4Network, subnets: Collection[Subnet], routes: Iterable[NetworkRoute], route: NetworkRoute
) -> dict[str, list[str]]:
    """Describe what is invalid in a new route, by field."""
    destination, gateway = IPv4Network(route.destination), IPv4Address(route.gateway)
    problems: dict[str, list[str]] = {}
    if destination != EVERYTHING and not is_private(destination):
        problems["destination"] = ["must be 0.0.0.0/0 or a private IPv4 range of RFC 1918"]
    elif METADATA_GATEWAY in destination and destination != EVERYTHING:
        problems["destination"] = [f"must not contain {METADATA_GATEWAY}"]
    elif destination != EVERYTHING and any(destination.overlaps(IPv4Network(s.ip_range)) for s in subnets):
        problems["destination"] = ["overlaps with a subnet"]
    elif any(_clash(destination, IPv4Network(other.destination)) for other in routes):
        problems["destination"] = ["overlaps with another route"]
    if gateway not in network:
        problems["gateway"] = ["must be in the network's ip_range"]
    elif gateway in {network.network_address, network.network_address + 1, METADATA_GATEWAY}:
        problems["gateway"] = ["is a reserved address of the network"]
    elif any(gateway in IPv4Network(s.ip_range) for s in subnets if s.type == "vswitch"):
        problems["gateway"] = ["must not be behind a vSwitch"]
    return problems


def _clash(one: IPv4Network, other: IPv4Network) -> bool:
    if EVERYTHING in {one, other}:
        return one == other
    return one.overlaps(other)


def choose_address(
    network: IPv4Network,
    subnets: Sequence[Subnet],
    used: Container[str],
    zone: str,
    *,
    ip: IPv4Address | None = None,
    ip_range: IPv4Network | None = None,
) -> str:
    """The address of a new member in a network zone.

    Without ``ip`` and ``ip_range`` it comes from the last subnet by range, as at Hetzner; if that one is
    full, from the one before. Raises InvalidInput, ``ip_not_available``, or ``no_subnet_available``.
    """
    suited = [IPv4Network(s.ip_range) for s in subnets if s.type != "vswitch" and s.network_zone == zone]
    if ip_range is not None:
        if ip_range not in suited:
            raise InvalidInput({"ip_range": [f"'{ip_range}' is not a subnet of the network in {zone}"]})
        suited = [ip_range]
    if ip is not None:
        return _wanted_address(network, suited, used, ip, ip_range)
    for subnet in sorted(suited, reverse=True):
        for address in usable(network, subnet):
            if address not in used:
                return address
    raise ApiError("no_subnet_available", "no subnet or IP is available for the resource within the network")


def _wanted_address(
    network: IPv4Network,
    suited: Sequence[IPv4Network],
    used: Container[str],
    ip: IPv4Address,
    ip_range: IPv4Network | None,
) -> str:
    holder = next((subnet for subnet in suited if ip in subnet), None)
    if holder is None:
        if ip_range is not None:
            raise InvalidInput({"ip": [f"'{ip}' is not in ip_range '{ip_range}'"]})
        raise ApiError("ip_not_available", f"ip '{ip}' isn't in a subnet of the network")
    if str(ip) in used or not is_usable(network, holder, ip):
        raise ApiError("ip_not_available", f"ip '{ip}' is not available")
    return str(ip)


def is_usable(network: IPv4Network, subnet: IPv4Network, ip: IPv4Address) -> bool:
    """Whether a member can have this address of the subnet."""
    reserved = {
        network.network_address + 1,
        METADATA_GATEWAY,
        subnet.network_address,
        subnet.broadcast_address,
    }
    return ip in subnet and ip not in reserved


def usable(network: IPv4Network, subnet: IPv4Network) -> Iterator[str]:
    """The addresses of a subnet that members can have, in order."""
    reserved = {int(network.network_address) + 1, int(METADATA_GATEWAY)}
    # Plain numbers, because each new member of a network with thousands of them iterates here.
    for number in range(int(subnet.network_address) + 1, int(subnet.broadcast_address)):
        if number not in reserved:
            yield socket.inet_ntoa(number.to_bytes(4, "big"))


class UsedAddresses:
    """The addresses of a network's members, aliases included."""

    def __init__(self, cloud: Cloud, network: Network) -> None:
        self._store, self._network = cloud.store, network.id

    def __contains__(self, ip: object) -> bool:
        return bool(self._store.lookup("network_addresses", (self._network, ip)))


def open_network(call: Call, identity: int) -> Network:
    """A network that can get a new member now (NotFound, Conflict, LimitExceeded)."""
    network = call.cloud.store.get(Network, call.project, identity)
    if call.cloud.actions.locked("network", network.id):
        raise Conflict("network")
    call.cloud.check_limit("network_members", len(call.cloud.store.lookup("network_members", network.id)))
    return network


def check_compatible(networks: Sequence[Network]) -> None:
    """Refuse networks that one server can't be attached to at the same time: too many, or overlapping."""
    if len(networks) > MAX_NETWORKS:
        raise ApiError(
            "resource_limit_exceeded", f"a server can be attached to {MAX_NETWORKS} networks at most"
        )
    ranges = [IPv4Network(network.ip_range) for network in networks]
    if any(one.overlaps(other) for number, one in enumerate(ranges) for other in ranges[:number]):
        raise ApiError("networks_overlap", "the network IP range overlaps with one of the server networks")


def new_attachment(
    call: Call,
    network: Network,
    zone: str,
    ip: IPv4Address | None = None,
    ip_range: IPv4Network | None = None,
) -> Attachment:
    """A new member's attachment; it reserves its address once the caller has stored the member."""
    used = UsedAddresses(call.cloud, network)
    address = choose_address(
        IPv4Network(network.ip_range), network.subnets, used, zone, ip=ip, ip_range=ip_range
    )
    return Attachment(network.id, address, mac_address=call.cloud.addresses.new_mac(), status="attaching")


def new_attachments(call: Call, identities: Iterable[int], zone: str) -> list[Attachment]:
    """The attachments of a new server."""
    networks = [open_network(call, identity) for identity in identities]
    check_compatible(networks)
    return [new_attachment(call, network, zone) for network in networks]


def read_aliases(cloud: Cloud, fields: Fields, network: Network, own: Attachment | None) -> list[str]:
    """The field ``alias_ips``: distinct, free addresses in subnets of the network."""
    used, kept = UsedAddresses(cloud, network), own.alias_ips if own else []
    aliases = fields.texts("alias_ips")
    fields.check_distinct("alias_ips", aliases)
    for alias in aliases:
        if problem := _alias_problem(network, alias, taken=alias in used and alias not in kept):
            fields.wrong("alias_ips", problem)
    fields.check()
    return aliases


def _alias_problem(network: Network, alias: str, *, taken: bool) -> str:
    try:
        ip = IPv4Address(alias)
    except ValueError:
        return f"'{alias}' is not a valid IPv4 address"
    whole = IPv4Network(network.ip_range)
    if not any(is_usable(whole, IPv4Network(subnet.ip_range), ip) for subnet in network.subnets):
        return f"'{alias}' isn't in a subnet of the network"
    return f"'{alias}' is not available" if taken else ""

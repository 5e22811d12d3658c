"""Rules for ranges and addresses in networks, as pure functions."""

from __future__ import annotations

import socket
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network

from hetzner_emulator.errors import ApiError, InvalidInput
from hetzner_emulator.models.networks import NetworkRoute, Subnet

PRIVATE = tuple(IPv4Network(n) for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
METADATA_GATEWAY = IPv4Address("172.31.1.1")
EVERYTHING = IPv4Network("0.0.0.0/0")
SUBNET_PREFIX = 24
SMALLEST_PREFIX = 30


def range_problem(ip_range: IPv4Network) -> str:
    """What is wrong with a network's range, or ""."""
    if not is_private(ip_range):
        return "must be a private IPv4 range of RFC 1918"
    return "must be at least a /24" if ip_range.prefixlen > SUBNET_PREFIX else ""


def is_private(network: IPv4Network) -> bool:
    """Whether the range lies in one of RFC 1918."""
    return any(network.subnet_of(private) for private in PRIVATE)


def subnet_problem(
    network: IPv4Network, present: Iterable[Subnet], subnet: IPv4Network, routes: Iterable[NetworkRoute] = ()
) -> str:
    """What is wrong with a new subnet, or ""."""
    if not subnet.subnet_of(network):
        return "network must contain subnet: it is not in the network's ip_range"
    if subnet.prefixlen > SMALLEST_PREFIX:
        return f"must be at least a /{SMALLEST_PREFIX}"
    if any(subnet.overlaps(IPv4Network(other.ip_range)) for other in present):
        return "overlaps with another subnet"
    if any(subnet.overlaps(destination) for destination in destinations(routes)):
        return "overlaps with a route"
    return ""


def destinations(routes: Iterable[NetworkRoute]) -> list[IPv4Network]:
    """Where routes lead, the default route apart."""
    found = [IPv4Network(route.destination) for route in routes]
    return [destination for destination in found if destination != EVERYTHING]


def free_subnet(
    network: IPv4Network, present: Sequence[Subnet], routes: Iterable[NetworkRoute] = ()
) -> IPv4Network:
    """The first free /24 (or the whole range if it is smaller).

    Raises:
        ApiError: ``no_subnet_available``; none is left.
    """
    taken = [*(IPv4Network(subnet.ip_range) for subnet in present), *destinations(routes)]
    for candidate in network.subnets(new_prefix=max(SUBNET_PREFIX, network.prefixlen)):
        if not any(candidate.overlaps(other) for other in taken):
            return candidate
    raise ApiError("no_subnet_available", "no free /24 range is left in the network")


def route_problems(
    network: IPv4Network, subnets: Collection[Subnet], routes: Iterable[NetworkRoute], route: NetworkRoute
) -> dict[str, list[str]]:
    """What is wrong with a new route, by field."""
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
    """The address of a new member.

    Without ``ip`` and ``ip_range`` it comes from the last subnet by range, as at Hetzner, to the surprise of
    many; further subnets are tried from the back when that one is full.

    Args:
        network: The whole range.
        subnets: All of the network.
        used: Addresses that are taken.
        zone: Network zone of the member.
        ip: The wanted address.
        ip_range: The wanted subnet.

    Raises:
        InvalidInput: The wanted address is not in the wanted subnet, or that is no subnet.
        ApiError: ``ip_not_available`` or ``no_subnet_available``.
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
        raise ApiError("ip_not_available", f"ip '{ip}' is in no subnet of the network")
    if str(ip) in used or not is_usable(network, holder, ip):
        raise ApiError("ip_not_available", f"ip '{ip}' is not available")
    return str(ip)


def is_usable(network: IPv4Network, subnet: IPv4Network, ip: IPv4Address) -> bool:
    """Whether a member may have this address of the subnet at all."""
    reserved = {
        network.network_address + 1,
        METADATA_GATEWAY,
        subnet.network_address,
        subnet.broadcast_address,
    }
    return ip in subnet and ip not in reserved


def usable(network: IPv4Network, subnet: IPv4Network) -> Iterator[str]:
    """All addresses of a subnet that members may have, in order."""
    reserved = {int(network.network_address) + 1, int(METADATA_GATEWAY)}
    # Plain numbers: networks with thousands of members are walked through for every new one.
    for number in range(int(subnet.network_address) + 1, int(subnet.broadcast_address)):
        if number not in reserved:
            yield socket.inet_ntoa(number.to_bytes(4, "big"))

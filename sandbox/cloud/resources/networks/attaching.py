"""What servers and load balancers need to become members of a network."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

from sandbox.cloud.call import Call
from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import ApiError, Conflict
from sandbox.cloud.fields import Fields
from sandbox.cloud.resources.networks.addressing import choose_address, is_usable
from sandbox.cloud.resources.networks.state import Attachment, Network, members

MAXIMUM_NETWORKS = 3


def used_addresses(cloud: Cloud, network: Network) -> set[str]:
    """All addresses that members have, aliases included."""
    attached = members(cloud.store, network.id)
    return {ip for member in attached for ip in (member.attachment.ip, *member.attachment.alias_ips)}


def open_network(call: Call, identity: int) -> Network:
    """A network that can take a new member now.

    Raises:
        NotFound: there is none.
        Conflict: it is being changed.
        LimitExceeded: it is full.
    """
    network = call.cloud.store.get(Network, call.project, identity)
    if call.cloud.actions.locked("network", network.id):
        raise Conflict("network")
    call.cloud.check_limit("network_members", len(members(call.cloud.store, network.id)))
    return network


def check_compatible(networks: Sequence[Network]) -> None:
    """Refuse networks that one server can't be in at the same time.

    Raises:
        ApiError: there are too many of them, or two overlap.
    """
    if len(networks) > MAXIMUM_NETWORKS:
        raise ApiError(
            "resource_limit_exceeded", f"a server can be attached to {MAXIMUM_NETWORKS} networks at most"
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
    """A place in the network, reserved by being kept as ``attaching``.

    Raises:
        InvalidInput: ``ip`` and ``ip_range`` don't fit together.
        ApiError: no address is free, or not the wanted one.
    """
    used = used_addresses(call.cloud, network)
    address = choose_address(
        IPv4Network(network.ip_range), network.subnets, used, zone, ip=ip, ip_range=ip_range
    )
    return Attachment(network.id, address, mac_address=call.cloud.addresses.new_mac(), status="attaching")


def read_aliases(cloud: Cloud, fields: Fields, network: Network, own: Attachment | None) -> list[str]:
    """The field ``alias_ips``: free addresses in subnets of the network.

    Raises:
        InvalidInput: one is no address, taken, or in no subnet.
    """
    used = used_addresses(cloud, network) - set(own.alias_ips if own else ())
    aliases = fields.texts("alias_ips")
    for alias in aliases:
        if problem := _alias_problem(network, used, alias):
            fields.wrong("alias_ips", problem)
    fields.check()
    return aliases


def _alias_problem(network: Network, used: set[str], alias: str) -> str:
    try:
        ip = IPv4Address(alias)
    except ValueError:
        return f"'{alias}' is not a valid IPv4 address"
    whole = IPv4Network(network.ip_range)
    if not any(is_usable(whole, IPv4Network(subnet.ip_range), ip) for subnet in network.subnets):
        return f"'{alias}' is in no subnet of the network"
    return f"'{alias}' is not available" if alias in used else ""

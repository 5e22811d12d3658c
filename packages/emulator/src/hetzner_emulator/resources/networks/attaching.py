"""What servers and load balancers need to become members of a network."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

from hetzner_emulator.api.call import Call
from hetzner_emulator.cloud import Cloud
from hetzner_emulator.errors import ApiError, Conflict
from hetzner_emulator.models.networks import Attachment, Network
from hetzner_emulator.resources.networks.addressing import choose_address, is_usable
from hetzner_emulator.wire.fields import Fields

MAXIMUM_NETWORKS = 3


class UsedAddresses:
    """The addresses that members of a network have, aliases included."""

    def __init__(self, cloud: Cloud, network: Network) -> None:
        self._store, self._network = cloud.store, network.id

    def __contains__(self, ip: object) -> bool:
        return bool(self._store.lookup("network_addresses", (self._network, ip)))


def open_network(call: Call, identity: int) -> Network:
    """A network that can take a new member now.

    Raises:
        NotFound: There is none.
        Conflict: It is being changed.
        LimitExceeded: It is full.
    """
    network = call.cloud.store.get(Network, call.project, identity)
    if call.cloud.actions.locked("network", network.id):
        raise Conflict("network")
    call.cloud.check_limit("network_members", len(call.cloud.store.lookup("network_members", network.id)))
    return network


def check_compatible(networks: Sequence[Network]) -> None:
    """Refuse networks that one server can't be in at the same time.

    Raises:
        ApiError: There are too many of them, or two overlap.
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
        ApiError: No address is free, or not the wanted one.
    """
    used = UsedAddresses(call.cloud, network)
    address = choose_address(
        IPv4Network(network.ip_range), network.subnets, used, zone, ip=ip, ip_range=ip_range
    )
    return Attachment(network.id, address, mac_address=call.cloud.addresses.new_mac(), status="attaching")


def read_aliases(cloud: Cloud, fields: Fields, network: Network, own: Attachment | None) -> list[str]:
    """The field ``alias_ips``: free addresses in subnets of the network.

    Raises:
        InvalidInput: One is no address, taken, in no subnet, or there twice.
    """
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
        return f"'{alias}' is in no subnet of the network"
    return f"'{alias}' is not available" if taken else ""

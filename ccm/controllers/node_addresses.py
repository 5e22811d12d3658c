"""Chooses the addresses of a Node.

The cloud lists the machine's addresses. If the kubelet runs with ``--node-ip``, an annotation of the Node
contains these addresses. The provided addresses come first, and replace all others of their types.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

from ccm.cloud import HOSTNAME, Address
from ccm.controllers.names import PROVIDED_NODE_IP
from ccm.errors import CcmError
from ccm.ip import parse_address
from ccm.kube.objects import Node


class ProvidedNodeIpInvalid(CcmError):
    """The cloud doesn't offer the addresses of the kubelet's ``--node-ip`` (``provided``)."""

    def __init__(self, node: str, provided: str, offered: Sequence[Address], why: str) -> None:
        super().__init__(f'provided node ip for node "{node}" is not valid: {why}')
        self.node = node
        self.provided = provided
        self.offered = tuple(offered)


def wanted_addresses(node: Node, offered: Sequence[Address]) -> list[Address]:
    """The addresses for a Node's status; raises ProvidedNodeIpInvalid for an annotation without a match."""
    addresses = list(offered)
    if not any(address.type == HOSTNAME for address in addresses):
        # If the cloud has no host name, keep the host name from the kubelet.
        present = node.status.addresses
        addresses += [Address(HOSTNAME, kept.address) for kept in present if kept.type == HOSTNAME]
    provided = node.metadata.annotations.get(PROVIDED_NODE_IP)
    if provided is None:
        return addresses
    return prefer(node.metadata.name, addresses, provided)


def prefer(name: str, addresses: Sequence[Address], provided: str) -> list[Address]:
    """Put the provided addresses first, and remove other addresses of their types.

    ``provided`` has one IP address, or two of different families with a comma. Raises ProvidedNodeIpInvalid
    for other texts, or if ``addresses`` lacks an address. ``name`` is the Node's name.
    """
    try:
        wanted = _parse(provided)
    except ValueError as error:
        raise ProvidedNodeIpInvalid(name, provided, addresses, str(error)) from None
    first: list[Address] = []
    enforced: set[str] = set()
    for ip in wanted:
        matches = [address for address in addresses if parse_address(address.address) == ip]
        if not matches:
            why = f"failed to get node address from cloud provider that matches ip: {ip}"
            raise ProvidedNodeIpInvalid(name, provided, addresses, why)
        first += matches
        enforced |= {address.type for address in matches}
    return first + [address for address in addresses if address.type not in enforced]


def _parse(provided: str) -> list[IPv4Address | IPv6Address]:
    ips: list[IPv4Address | IPv6Address] = []
    for text in provided.split(","):
        address = parse_address(text)
        if address is None:
            raise ValueError(f"could not parse {text!r}")
        ips.append(address)
    if len(ips) > 2:
        raise ValueError(f"{provided!r} has more than two addresses")
    if len(ips) == 2 and ips[0].version == ips[1].version:
        raise ValueError(f"{provided!r} must be one IPv4 address and one IPv6 address")
    if len(ips) == 2 and any(ip.is_unspecified for ip in ips):
        raise ValueError(f"{provided!r} has an unspecified address")
    return ips

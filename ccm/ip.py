"""IP addresses and networks as Kubernetes reads them: ``ParseIPSloppy``, ``ParseCIDRSloppy`` in k8s.io/utils.

In older objects, the numbers of IPv4 addresses may start with zeros, but are decimal. An IPv4-mapped IPv6
address (``::ffff:10.0.0.1``) means the IPv4 address. An address with a zone (``fe80::1%eth0``) is invalid.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

# Characters. Kubelets can write annotations of 256 KiB, in which a search for zeros would take minutes.
_MAX_LENGTH = 100
_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9]+(\.|$|/))")


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, or None if the text isn't one."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        address = ip_address(_without_zeros(text))
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return None if address.scope_id else address.ipv4_mapped or address


def parse_network(text: str) -> IPv4Network | IPv6Network | None:
    """A network like ``10.244.0.0/16``, or None if the text isn't one. Bits of a host are dropped."""
    address, slash, length = text.partition("/")
    if not (slash and length.isascii() and length.isdigit() and "%" not in address):
        return None
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return ip_network(f"{_without_zeros(address)}/{length}", strict=False)
    except ValueError:
        return None


def _without_zeros(text: str) -> str:
    """The address without the zeros in front of its decimal numbers; other texts stay unchanged."""
    front, colon, last = text.rpartition(":")
    if "." not in last:
        return text
    return front + colon + _ZEROS.sub("", last)

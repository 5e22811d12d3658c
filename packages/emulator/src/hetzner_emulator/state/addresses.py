"""Allocates public addresses: IPv4 from a range, IPv6 as /64 networks, MAC addresses from a counter."""

from ipaddress import IPv4Address, IPv6Network

from hetzner_emulator.config import CloudConfig
from hetzner_emulator.errors import ApiError
from hetzner_emulator.state.store import Store


class AddressPool:
    """Allocates addresses in order, so that a released one is reused late.

    The index ``public_ipv4`` has the addresses in use.
    """

    def __init__(self, config: CloudConfig, store: Store) -> None:
        network = config.public_ipv4
        # Without the broadcast address, and without the first addresses, which the uplink has.
        self._first = int(network.network_address) + max(1, config.reserved_ipv4)
        self._count = max(0, int(network.broadcast_address) - self._first)
        self._ipv6 = config.public_ipv6
        self._store = store

    def new_ipv4(self) -> str:
        """A free public IPv4 address; raises ``resource_unavailable`` if all are in use."""
        for _ in range(self._count):
            number = self._store.next_number("public_ipv4", 0)
            address = str(IPv4Address(self._first + number % self._count))
            if not self._store.lookup("public_ipv4", address):
                return address
        raise ApiError("resource_unavailable", "no public IPv4 address is available")

    def new_ipv6(self) -> str:
        """An unused /64 network."""
        number = self._store.next_number("public_ipv6", 1)
        space = 2 ** (64 - self._ipv6.prefixlen)
        base = int(self._ipv6.network_address) + ((number % space) << 64)
        return str(IPv6Network((base, 64)))

    def new_mac(self) -> str:
        """A MAC address in Hetzner's style."""
        number = self._store.next_number("mac", 1)
        return "86:00:00:" + ":".join(f"{(number >> shift) & 0xFF:02x}" for shift in (16, 8, 0))


def first_host(network: str) -> str:
    """The address ``::1`` of a /64 network."""
    return str(IPv6Network(network).network_address + 1)

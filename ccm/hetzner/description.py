"""What a server looks like as the machine of a Node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Interface

from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance
from ccm.hetzner.provider_id import MachineId, write
from ccm.hetzner.wire import Server

PROVIDED_BY = "instance.hetzner.cloud/provided-by"

# The official CCM's zone label is the data centre that a location had when locations had only one.
_DATACENTERS = {
    "nbg1": "nbg1-dc3",
    "hel1": "hel1-dc2",
    "fsn1": "fsn1-dc14",
    "ash": "ash-dc1",
    "hil": "hil-dc1",
    "sin": "sin-dc1",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a provider's name changes what Nodes get.

    Attributes:
        provider: The name, as in ``--cloud-provider``.
        official: Region and zone as the official CCM has them (location and data centre) instead of network
            zone and location.
    """

    provider: str
    official: bool

    @property
    def scheme(self) -> str:
        """What provider IDs start with."""
        return f"{self.provider}://"


FROM_SCRATCH = Dialect("ccm-from-scratch", official=False)
OFFICIAL = Dialect("hcloud", official=True)
DIALECTS = {dialect.provider: dialect for dialect in (FROM_SCRATCH, OFFICIAL)}


@dataclass(frozen=True, slots=True)
class DescriptionOptions:
    """What the owner chose.

    Attributes:
        dialect: The provider's name and its consequences.
        ipv4: Report public IPv4 addresses.
        ipv6: Report public IPv6 addresses.
        zone_label: Report a zone.
        network: The network whose addresses are internal; None = none is.
        copied_labels: Keys of the server's labels that the Node gets too.
    """

    dialect: Dialect
    ipv4: bool = True
    ipv6: bool = False
    zone_label: bool = True
    network: int | None = None
    copied_labels: frozenset[str] = frozenset()


def describe(server: Server, options: DescriptionOptions) -> Instance:
    """Describe a server."""
    location = server.location
    if options.dialect.official:
        region, zone = location.name, _DATACENTERS.get(location.name, location.name)
    else:
        region, zone = location.network_zone, location.name
    copied = {key: value for key, value in server.labels.items() if key in options.copied_labels}
    return Instance(
        provider_id=write(MachineId("cloud", server.id), options.dialect.scheme),
        name=server.name,
        type=server.server_type.name,
        zone=zone if options.zone_label else "",
        region=region,
        addresses=tuple(_addresses(server, options)),
        labels={**copied, PROVIDED_BY: "cloud"},
        shut_down=server.status == "off",
    )


def _addresses(server: Server, options: DescriptionOptions) -> Iterator[Address]:
    yield Address(HOSTNAME, server.name)
    public = server.public_net
    if options.ipv4 and public.ipv4 and public.ipv4.ip:
        yield Address(EXTERNAL_IP, public.ipv4.ip)
    if options.ipv6 and public.ipv6 and public.ipv6.ip:
        # The API gives the /64 network; images configure its first address.
        yield Address(EXTERNAL_IP, str(IPv6Interface(public.ipv6.ip).network.network_address + 1))
    if options.network is not None and (private := server.private_ip(options.network)):
        yield Address(INTERNAL_IP, private)

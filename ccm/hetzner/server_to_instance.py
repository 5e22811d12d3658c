"""Describes a server as the machine of a Node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address, IPv6Interface

from ccm.cloud.errors import Notice
from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance
from ccm.hetzner.api.api_errors import unavailable
from ccm.hetzner.api.models import Server

PROVIDED_BY = "instance.hetzner.cloud/provided-by"
# A Node's annotation for an IPv6 address that isn't the first address of its network.
EXTERNAL_IPV6 = "instance.hetzner.cloud/external-ipv6"

# The official CCM's zone labels, from the time when a location had only one data center.
_DATACENTERS = {
    "nbg1": "nbg1-dc3",
    "hel1": "hel1-dc2",
    "fsn1": "fsn1-dc14",
    "ash": "ash-dc1",
    "hil": "hil-dc1",
    "sin": "sin-dc1",
}


@dataclass(frozen=True, slots=True)
class ProviderNaming:
    """The naming of provider IDs, regions and zones, which depends on the provider's name."""

    provider: str  # the name, as in `--cloud-provider`
    # region and zone are location and data center, as in the official CCM, not network zone and location
    official: bool

    @property
    def scheme(self) -> str:
        """The prefix of provider IDs."""
        return f"{self.provider}://"


FROM_SCRATCH = ProviderNaming("ccm-from-scratch", official=False)
OFFICIAL = ProviderNaming("hcloud", official=True)
NAMINGS = {naming.provider: naming for naming in (FROM_SCRATCH, OFFICIAL)}


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """Options for the description of servers."""

    naming: ProviderNaming  # the provider's name and its consequences
    ipv4: bool = True  # report public IPv4 addresses
    ipv6: bool = False  # report public IPv6 addresses
    # report a zone for cloud servers; Robot servers always have one, as with the official CCM
    zone_label: bool = True
    network: int | None = None  # the network with the internal addresses; None = no internal addresses
    copied_labels: frozenset[str] = frozenset()  # keys of server labels to copy to the Node


def describe(
    server: Server, options: InstanceOptions, annotations: Mapping[str, str] | None = None
) -> Instance:
    """Describe a server of a Node with these ``annotations``; raises CloudUnavailable for a malformed
    address.
    """
    own_ipv6, notices = chosen_ipv6(annotations or {})
    try:
        addresses = tuple(_addresses(server, options, own_ipv6))
    except ValueError as error:
        raise unavailable(f"GET /servers/{server.id}", f"an address is malformed: {error}") from None
    location = server.location
    if options.naming.official:
        region, zone = location.name, _DATACENTERS.get(location.name, location.name)
    else:
        region, zone = location.network_zone, location.name
    copied = {key: value for key, value in server.labels.items() if key in options.copied_labels}
    return Instance(
        provider_id=f"{options.naming.scheme}{server.id}",
        name=server.name,
        type=server.server_type.name,
        zone=zone if options.zone_label else "",
        region=region,
        addresses=addresses,
        labels={**copied, PROVIDED_BY: "cloud"},
        followed_labels=options.copied_labels,
        shut_down=server.status == "off",
        notices=notices,
    )


def chosen_ipv6(annotations: Mapping[str, str]) -> tuple[str, tuple[Notice, ...]]:
    """The IPv6 address in the Node's annotation (or empty), and a notice if the address is invalid."""
    text = annotations.get(EXTERNAL_IPV6, "").strip()
    if not text:
        return "", ()
    try:
        address = IPv6Address(text)
    except AddressValueError:
        address = None
    # Python accepts any text as a scope ID after `%`, which would then be in the Node's addresses.
    if address is not None and not address.scope_id:
        return str(address), ()
    message = (
        f"The annotation {EXTERNAL_IPV6}={text!r} isn't an IPv6 address like 2001:db8::5, so the annotation "
        "is ignored"
    )
    return "", (Notice("InvalidExternalIPv6", message),)


def first_of(network: str) -> str:
    """The first address of a network, which Hetzner's images configure."""
    return str(IPv6Interface(network).network.network_address + 1)


def _addresses(server: Server, options: InstanceOptions, own_ipv6: str) -> Iterator[Address]:
    yield Address(HOSTNAME, server.name)
    public = server.public_net
    if options.ipv4 and server.public_ipv4:
        yield Address(EXTERNAL_IP, server.public_ipv4)
    if options.ipv6 and public.ipv6 and public.ipv6.ip:
        # The API reports the /64 network.
        yield Address(EXTERNAL_IP, own_ipv6 or first_of(public.ipv6.ip))
    if options.network is not None and (private := server.private_ip(options.network)):
        yield Address(INTERNAL_IP, private)

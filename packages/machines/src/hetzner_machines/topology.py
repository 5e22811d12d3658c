"""The machines' network as commands for ``ip -batch``.

::

    host ── cfs<site> ══ uplink ── router ── p<server> ══ eth0 ── server ── ens10 ══ s<server> ── network

Public addresses are /32 on eth0 with the gateway 172.31.1.1 on link, private ones /32 on ens10 with the
network's range through its first address, both as at Hetzner. Router and networks have the address of the
metadata service for their members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from ccmfs_common.host import WIDEST_NETWORK
from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface

METADATA = "169.254.169.254"
GATEWAY = "172.31.1.1"
GATEWAY_V6 = "fe80::1"
PRIVATE_MTU = 1450
FIRST_PRIVATE_SLOT = 10  # ens10, ens11, …
PLUGGED = "plugged"  # alias of a port that is completely connected

# Settings of a namespace that forwards; never set for the host.
FORWARDING = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
}
FORWARDING_V6 = {"ipv6/conf/all/forwarding": "1", "ipv6/conf/default/accept_dad": "0"}
# On newer kernels (seen on 6.18) an ICMP error leaves a connection in SYN_SENT, with an error pending, and
# haproxy 2.6 polls that socket without a pause until its check times out. "Fragmentation needed" stays.
NO_ICMP_ERRORS = """\
table inet icmp-errors
delete table inet icmp-errors
table inet icmp-errors {
  chain input {
    type filter hook input priority filter; policy accept;
    icmp type destination-unreachable icmp code != frag-needed drop
    icmp type { time-exceeded, parameter-problem } drop
    icmpv6 type { destination-unreachable, time-exceeded, parameter-problem } drop
  }
}
"""
MACHINE = {"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}


@dataclass(frozen=True)
class Uplink:
    """The addresses of the link between host and router, the first of the public range."""

    host: str
    router: str
    prefix: int

    @staticmethod
    def of(public_range: IPv4Network | IPv6Network) -> Uplink:
        """The link's addresses in a range of public addresses."""
        return Uplink(str(public_range[1]), str(public_range[2]), public_range.max_prefixlen - 2)


def public_mac(server_id: int) -> str:
    """The hardware address of a server's eth0."""
    return _mac(0x9600, server_id)


def balancer_mac(load_balancer_id: int, interface: int = 0) -> str:
    """The hardware address of a load balancer's eth0 (0) or of one of its private interfaces."""
    return _mac(0x8602 + interface if interface else 0x9602, load_balancer_id)


def _mac(prefix: int, number: int) -> str:
    digits = f"{prefix:04x}{number & 0xFFFFFFFF:08x}"
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def network_gateway(ip_range: str) -> str:
    """The first address of a network, the gateway of its members."""
    return str(ip_network(ip_range)[1])


def host_lines(link: str, router: str, public_range: IPv4Network) -> list[str]:
    """In the host's namespace: the link, and the route to the public addresses."""
    uplink = Uplink.of(public_range)
    return [
        f"link add {link} type veth peer name uplink netns {router}",
        f"addr add {uplink.host}/{uplink.prefix} dev {link}",
        f"link set {link} up",
        f"route add {public_range} via {uplink.router} dev {link}",
    ]


def ipv6_host_lines(link: str, public_range: IPv6Network) -> list[str]:
    """In the host's namespace, after the link was made: the same for IPv6; idempotent."""
    uplink = Uplink.of(public_range)
    return [
        f"addr replace {uplink.host}/{uplink.prefix} dev {link} nodad",
        f"route replace {public_range} via {uplink.router} dev {link} src {uplink.host}",
    ]


def ipv6_router_lines(public_range: IPv6Network) -> list[str]:
    """In the router's namespace, after the link was made. There is no route back for unused addresses."""
    uplink = Uplink.of(public_range)
    return [f"addr replace {uplink.router}/{uplink.prefix} dev uplink nodad"]


def metadata_lines() -> list[str]:
    """In the router and in networks: the address of the metadata service; idempotent."""
    return ["link set lo up", f"addr replace {METADATA}/32 dev lo"]


def router_lines(public_range: IPv4Network) -> list[str]:
    """In the router's namespace, after the link was made."""
    uplink = Uplink.of(public_range)
    return [
        *metadata_lines(),
        f"addr replace {uplink.router}/{uplink.prefix} dev uplink",
        "link set uplink up",
    ]


def way_out_lines(public_range: IPv4Network) -> list[str]:
    """In the router's namespace: the default route to the host."""
    return [f"route replace default via {Uplink.of(public_range).host} dev uplink"]


def public_port_lines(port: str, peer: str, mac: str, ipv4: str | None, ipv6: str | None) -> list[str]:
    """In the router: the port of a server's or load balancer's eth0, with the routes to its addresses."""
    lines = [f"link add {port} type veth peer name eth0 address {mac} netns {peer}"]
    if ipv4:
        lines.append(f"addr add {GATEWAY}/32 dev {port}")
    if ipv6:
        lines.append(f"addr add {GATEWAY_V6}/64 dev {port} nodad")
    lines.append(f"link set {port} up")
    if ipv4:
        lines.append(f"route replace {ipv4}/32 dev {port}")
    if ipv6:
        lines.append(f"route replace {ipv6_network(ipv6)} dev {port}")
    return lines


def floating_lines(port: str, addresses: Iterable[str]) -> list[str]:
    """In the router: routes of floating IPs to a server, which must configure them itself."""
    return [f"route replace {ip_network(address)} dev {port}" for address in addresses]


def public_end_lines(ipv4: str | None, ipv6: str | None) -> list[str]:
    """In a server or load balancer: its eth0."""
    lines = []
    if ipv4:
        lines.append(f"addr add {ipv4}/32 dev eth0")
    if ipv6:
        network = ipv6_network(ipv6)
        lines.append(f"addr add {network[1]}/{network.prefixlen} dev eth0 nodad")
    lines.append("link set eth0 up")
    if ipv4:
        lines += [f"route add {GATEWAY} dev eth0", f"route add default via {GATEWAY} dev eth0"]
    if ipv6:
        lines.append(f"route add default via {GATEWAY_V6} dev eth0")
    return lines


def ipv6_network(text: str) -> IPv6Network:
    """The /64 of a server, from a network or from one address in it."""
    return IPv6Network(text if "/" in text else f"{text}/64", strict=False)


def network_link_lines(network_id: int) -> list[str]:
    """In a new network's namespace: its bridge."""
    # A bridge without an address uses one of its ports' and changes it as they come and go.
    return [f"link add br0 up address {_mac(0x8A00, network_id)} type bridge"]


def private_port_lines(port: str, peer: str, device: str, interface: PrivateInterface) -> list[str]:
    """In a network: the isolated port of a member. Members reach each other only through the gateway."""
    end = f"name {device} address {interface.mac_address} mtu {PRIVATE_MTU} netns {peer}"
    return [
        f"link add {port} mtu {PRIVATE_MTU} type veth peer {end}",
        f"link set {port} master br0",
        f"link set {port} type bridge_slave isolated on",
        f"link set {port} up",
        *neighbor_lines((), interface),
    ]


def neighbor_lines(before: Iterable[str], interface: PrivateInterface) -> list[str]:
    """In a network: permanent neighbors for a member's address and alias addresses."""
    gone = sorted(set(before) - set(interface.alias_ips))
    return [f"neigh del {ip} dev br0" for ip in gone] + [
        f"neigh replace {ip} lladdr {interface.mac_address} dev br0 nud permanent"
        for ip in (interface.ip, *interface.alias_ips)
    ]


def forget_lines(interface: PrivateInterface) -> list[str]:
    """In a network: removes a former member's neighbors; each line may fail."""
    return [f"neigh del {ip} dev br0" for ip in (interface.ip, *interface.alias_ips)]


def private_end_lines(device: str, ip: str, network: NetworkSpec, *, metadata: bool) -> list[str]:
    """In a member: its private interface."""
    gateway = network_gateway(network.ip_range)
    lines = [
        f"addr replace {ip}/32 dev {device}",
        f"link set {device} up",
        f"route replace {gateway} dev {device} scope link",
        f"route replace {network.ip_range} via {gateway} dev {device}",
    ]
    return lines + [f"route replace {METADATA} via {gateway} dev {device}"] * metadata


def port(server_id: int) -> str:
    """The name of a server's port in a network."""
    return f"s{server_id}"


def private_device(slot: int) -> str:
    """The guest's name of the interface in a slot."""
    return f"ens{FIRST_PRIVATE_SLOT + slot}"


def free_slot(slots: Mapping[int, int]) -> int:
    """The first unused slot of a machine."""
    return next(slot for slot in range(len(slots) + 1) if slot not in slots.values())


def has_public(machine: MachineSpec) -> bool:
    """Whether a machine has an eth0."""
    return machine.public_ipv4 is not None or machine.public_ipv6 is not None


def asks_in_networks(machine: MachineSpec) -> bool:
    """Whether a machine reaches the metadata service through its networks.

    The router knows machines by public IPv4 addresses, and the service has an IPv4 address.
    """
    return machine.public_ipv4 is None


def network_changes(
    network: NetworkSpec, addresses: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Commands that reconcile a network's kernel routes and gateway address, from ``ip -json`` in it."""
    gateway = network_gateway(network.ip_range)
    present = {a["local"] for link in addresses for a in link["addr_info"] if a["family"] == "inet"}
    on_link, through = _kernel_routes(routes)
    subnets = {IPv4Network(subnet) for subnet in network.subnets}
    wanted = {IPv4Network(route.destination): route.gateway for route in network.routes}
    lines = [f"addr del {ip}/32 dev br0" for ip in sorted(present - {gateway})]
    lines += [f"addr add {gateway}/32 dev br0"] * (gateway not in present)
    lines += [f"route del {route} via {through[route]}" for route in through if route not in wanted]
    lines += [f"route del {subnet} dev br0" for subnet in on_link - subnets]
    lines += [f"route add {subnet} dev br0" for subnet in sorted(subnets - on_link, key=str)]
    return lines + [
        f"route replace {destination} via {via} dev br0 onlink"
        for destination, via in wanted.items()
        if through.get(destination) != via
    ]


def _kernel_routes(routes: Sequence[Mapping[str, Any]]) -> tuple[set[IPv4Network], dict[IPv4Network, str]]:
    """The routes on br0: direct ones, and those through a member by destination."""
    on_link, through = set(), {}
    for route in routes:
        if route.get("dev") != "br0" or route.get("protocol") == "kernel":
            continue
        destination = IPv4Network("0.0.0.0/0" if route["dst"] == "default" else route["dst"])
        if "gateway" in route:
            through[destination] = route["gateway"]
        else:
            on_link.add(destination)
    return on_link, through


def range_in_use(
    public_range: IPv4Network | IPv6Network,
    own_link: str,
    addresses: Sequence[Mapping[str, Any]],
    routes: Sequence[Mapping[str, Any]],
) -> str | None:
    """What on the host uses the range of public addresses, or None; our own link may.

    ``addresses`` are from ``ip -json addr show``, ``routes`` from ``ip -json route show table all``.
    """
    for link in addresses:
        for address in link["addr_info"]:
            if link["ifname"] != own_link and ip_address(address["local"]) in public_range:
                return f"address {address['local']} on {link['ifname']}"
    for route in routes:
        device, destination = route.get("dev"), route["dst"]
        if device == own_link or destination == "default" or "/" not in destination:
            continue
        found = ip_network(destination, strict=False)
        if found.prefixlen >= WIDEST_NETWORK and found.overlaps(public_range):
            return f"route {destination} dev {device}"
    return None

from ipaddress import IPv4Network, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetzner_emulator.backend import MachineSpec, NetworkSpec, PrivateInterface, Route
from hetzner_machines import ipv6, topology

SUBNETS = [f"10.0.{n}.0/24" for n in range(4)]
DESTINATIONS = [f"10.244.{n}.0/24" for n in range(6)] + ["10.9.0.0/16", "192.168.1.1/32", "0.0.0.0/0"]


class Kernel:
    """As much of a kernel's routing as the lines of a network use."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()
        self.on_link: set[str] = set()
        self.through: dict[str, str] = {}

    def run(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["addr", "add", address, "dev", "br0"]:
                    assert address not in self.addresses, "File exists"
                    self.addresses.add(address)
                case ["addr", "del", address, "dev", "br0"]:
                    self.addresses.remove(address)
                case ["route", "add", subnet, "dev", "br0"]:
                    assert subnet not in self.on_link, "File exists"
                    self.on_link.add(subnet)
                case ["route", "del", subnet, "dev", "br0"]:
                    self.on_link.remove(subnet)
                case ["route", "replace", destination, "via", gateway, "dev", "br0", "onlink"]:
                    self.through[destination] = gateway
                case ["route", "del", destination, "via", gateway]:
                    assert self.through.pop(destination) == gateway, "No such process"
                case _:
                    pytest.fail(line)

    def show(self) -> tuple[list[dict], list[dict]]:
        """Addresses and routes as ``ip -json`` writes them."""
        info = [{"family": "inet", "local": address.removesuffix("/32")} for address in self.addresses]
        info.append({"family": "inet6", "local": "fe80::1"})
        routes = [{"dst": shown(subnet), "dev": "br0", "scope": "link"} for subnet in self.on_link]
        routes += [{"dst": shown(d), "gateway": via, "dev": "br0"} for d, via in self.through.items()]
        return [{"ifname": "br0", "addr_info": info}], routes


def shown(destination: str) -> str:
    return "default" if destination == "0.0.0.0/0" else destination.removesuffix("/32")


networks = st.builds(
    NetworkSpec,
    st.just(1),
    st.just("n"),
    st.sampled_from(["10.0.0.0/8", "10.0.0.0/16"]),
    st.lists(st.sampled_from(SUBNETS), unique=True).map(tuple),
    st.dictionaries(st.sampled_from(DESTINATIONS), st.sampled_from(["10.0.0.2", "10.0.1.9"])).map(
        lambda routes: tuple(Route(*route) for route in routes.items())
    ),
)


@given(st.lists(networks, min_size=1, max_size=4))
def test_reconciling_a_network_is_complete_and_idempotent(wanted):
    kernel = Kernel()
    for network in wanted:
        kernel.run(topology.network_changes(network, *kernel.show()))
        assert kernel.addresses == {"10.0.0.1/32"}
        assert kernel.on_link == set(network.subnets)
        assert kernel.through == {route.destination: route.gateway for route in network.routes}
        assert topology.network_changes(network, *kernel.show()) == []


def test_routes_of_the_kernel_stay():
    network = NetworkSpec(1, "n", "10.0.0.0/8", (), ())
    addresses = [{"addr_info": [{"family": "inet", "local": "10.0.0.1"}]}]
    routes = [{"dst": "10.0.0.0/24", "dev": "br0", "protocol": "kernel"}]
    assert topology.network_changes(network, addresses, routes) == []


@given(st.integers(1, 2**40))
def test_names_of_ports_fit_the_kernel_and_addresses_are_unicast(number):
    assert len(topology.port(number)) <= 15
    for mac in (topology.public_mac(number), *(topology.balancer_mac(number, n) for n in (0, 1, 3))):
        assert len(mac) == 17
        assert int(mac[:2], 16) & 1 == 0


def test_alias_addresses_follow_their_member():
    after = PrivateInterface(1, "10.0.0.2", ("10.0.0.9",), "86:00:00:00:00:01")
    assert topology.neighbor_lines(("10.0.0.8", "10.0.0.9"), after) == [
        "neigh del 10.0.0.8 dev br0",
        "neigh replace 10.0.0.2 lladdr 86:00:00:00:00:01 dev br0 nud permanent",
        "neigh replace 10.0.0.9 lladdr 86:00:00:00:00:01 dev br0 nud permanent",
    ]


RANGE = IPv4Network("203.0.113.0/26")
RANGE_V6 = IPv6Network("3fff:abc:def0::/44")


@pytest.mark.parametrize(
    ("public_range", "addresses", "routes", "user"),
    [
        (RANGE, [], [], None),
        (RANGE, [("cfs1", "203.0.113.1")], [("cfs1", "203.0.113.0/26"), ("eth0", "default")], None),
        (RANGE, [("eth0", "203.0.113.70")], [("eth0", "203.0.113.64/26")], None),
        (RANGE, [("eth0", "203.0.113.5")], [], "address 203.0.113.5 on eth0"),
        (RANGE, [], [("tun0", "203.0.113.0/24")], "route 203.0.113.0/24 dev tun0"),
        (RANGE, [], [("cfs2", "203.0.113.32/27")], "route 203.0.113.32/27 dev cfs2"),
        (RANGE, [], [("tun0", "0.0.0.0/0"), ("lo", "203.0.113.255")], None),
        (RANGE, [], [("tun0", "0.0.0.0/1"), ("tun0", "128.0.0.0/1"), ("wg0", "200.0.0.0/5")], None),
        (RANGE, [], [("tun0", "203.0.0.0/8")], "route 203.0.0.0/8 dev tun0"),
        (RANGE_V6, [("lo", "::1")], [("eth0", "default"), ("eth0", "ff00::/8")], None),
        (RANGE_V6, [("cfs1", "3fff:abc:def0::1")], [("cfs1", "3fff:abc:def0::/44")], None),
        (RANGE_V6, [("eth0", "3fff:abc:def0:1::5")], [], "address 3fff:abc:def0:1::5 on eth0"),
        (RANGE_V6, [], [("tun0", "3fff:abc::/32")], "route 3fff:abc::/32 dev tun0"),
        (RANGE_V6, [], [("tun0", "2000::/4"), ("tun0", "3000::/4")], None),
    ],
)
def test_a_range_that_the_host_uses_is_found(public_range, addresses, routes, user):
    links = [{"ifname": name, "addr_info": [{"local": ip}]} for name, ip in addresses]
    entries = [{"dev": device, "dst": destination} for device, destination in routes]
    assert topology.range_in_use(public_range, "cfs1", links, entries) == user


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_sites_have_different_ipv6_ranges(one, other):
    first, second = (ipv6.of_site(f"{number:06x}") for number in (one, other))
    assert first.overlaps(second) is (one == other)
    assert first.subnet_of(ipv6.DOCUMENTATION)


@pytest.mark.parametrize(
    ("switched_off", "reason"),
    [
        (None, "its kernel has no IPv6"),
        ([], None),
        (["all"], "net.ipv6.conf.all.disable_ipv6"),
        (["default"], "net.ipv6.conf.default.disable_ipv6"),
        (["cfs1"], "net.ipv6.conf.cfs1.disable_ipv6"),
        (["eth0"], None),
    ],
)
def test_reasons_why_a_host_has_no_ipv6(tmp_path, switched_off, reason):
    kernel = tmp_path / "ipv6"
    for name in ("all", "default", "cfs1", "eth0") if switched_off is not None else ():
        (kernel / "conf" / name).mkdir(parents=True)
        (kernel / "conf" / name / "disable_ipv6").write_text(f"{int(name in switched_off)}\n")
    found = ipv6.obstacle("cfs1", kernel)
    assert reason in found if reason else found is None


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "public", "asks"),
    [(None, None, False, True), (None, "2001:db8::/64", True, True), ("203.0.113.9", None, True, False)],
)
def test_machines_without_public_ipv4_use_metadata_of_their_networks(ipv4, ipv6, public, asks):
    machine = MachineSpec(1, "m", ipv4, ipv6, 1, 1.0, ())
    assert (topology.has_public(machine), topology.asks_in_networks(machine)) == (public, asks)

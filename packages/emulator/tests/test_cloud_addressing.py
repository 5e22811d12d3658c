from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hetzner_emulator.errors import ApiError
from hetzner_emulator.models.networks import NetworkRoute, Subnet
from hetzner_emulator.resources.networks.rules import (
    choose_address,
    free_subnet,
    route_problems,
    subnet_problem,
)

WHOLE = IPv4Network("10.0.0.0/16")
ZONE = "eu-central"


def subnet(text: str, zone: str = ZONE, kind: str = "cloud") -> Subnet:
    return Subnet(kind, text, zone)


def numbered(prefix: int, number: int) -> Subnet:
    return subnet(str(IPv4Network((int(WHOLE.network_address) + (number << (32 - prefix)), prefix))))


def are_separate(chosen: list[Subnet]) -> bool:
    pairs = combinations([IPv4Network(one.ip_range) for one in chosen], 2)
    return not any(one.overlaps(other) for one, other in pairs)


one_subnet = st.builds(numbered, st.integers(24, 30), st.integers(0, 200))
subnets = st.lists(one_subnet, max_size=4).filter(are_separate)


@given(subnets, st.integers(1, 40))
def test_addresses_are_distinct_usable_and_of_the_last_subnet_first(chosen, number):
    assume(chosen)
    used: set[str] = set()
    order = sorted((IPv4Network(s.ip_range) for s in chosen), reverse=True)
    positions, reason = [], "no_subnet_available"
    for _ in range(number):
        try:
            address = choose_address(WHOLE, chosen, used, ZONE)
        except ApiError as error:
            reason = error.code
            break
        assert address not in used
        ip = IPv4Address(address)
        home = next(i for i, network in enumerate(order) if ip in network)
        assert ip not in {order[home].network_address, order[home].broadcast_address, IPv4Address("10.0.0.1")}
        positions.append(home)
        used.add(address)
    assert positions == sorted(positions)
    assert reason == "no_subnet_available"


@given(subnets, subnets)
def test_a_free_subnet_overlaps_neither_subnets_nor_routes(chosen, routed):
    routes = [NetworkRoute("0.0.0.0/0", "10.0.0.2"), *(NetworkRoute(s.ip_range, "10.0.0.2") for s in routed)]
    found = free_subnet(WHOLE, chosen, routes)
    assert found.prefixlen == 24
    assert subnet_problem(WHOLE, chosen, found, routes) == ""
    assert not any(found.overlaps(IPv4Network(s.ip_range)) for s in [*chosen, *routed])


def test_a_requested_address_and_subnet():
    both = [subnet("10.0.1.0/24"), subnet("10.0.2.0/24")]
    assert choose_address(WHOLE, both, set(), ZONE, ip_range=IPv4Network("10.0.1.0/24")) == "10.0.1.1"
    assert choose_address(WHOLE, both, set(), ZONE, ip=IPv4Address("10.0.1.9")) == "10.0.1.9"
    for ip, ip_range in ((IPv4Address("10.0.2.9"), "10.0.1.0/24"), (None, "10.0.3.0/24")):
        with pytest.raises(ApiError, match="invalid_input"):
            choose_address(WHOLE, both, set(), ZONE, ip=ip, ip_range=IPv4Network(ip_range))
    for taken in ("10.0.1.9", "10.0.3.1", "10.0.1.0", "10.0.1.255"):
        with pytest.raises(ApiError, match="ip_not_available"):
            choose_address(WHOLE, both, {"10.0.1.9"}, ZONE, ip=IPv4Address(taken))


def test_no_subnet_and_no_address_is_left():
    with pytest.raises(ApiError, match="no_subnet_available"):
        free_subnet(IPv4Network("10.0.0.0/24"), [subnet("10.0.0.0/25")])
    present = [subnet("10.0.1.0/24", "us-east"), subnet("10.0.2.0/24", kind="vswitch")]
    with pytest.raises(ApiError, match="no_subnet_available"):
        choose_address(WHOLE, present, set(), ZONE)


@pytest.mark.parametrize(
    ("destination", "gateway", "field"),
    [
        ("8.8.8.0/24", "10.0.0.2", "destination"),
        ("10.0.1.128/25", "10.0.0.2", "destination"),
        ("10.9.0.0/24", "10.0.0.2", "destination"),
        ("172.31.0.0/16", "10.0.0.2", "destination"),
        ("10.10.0.0/24", "192.168.0.2", "gateway"),
        ("10.10.0.0/24", "10.0.0.1", "gateway"),
        ("10.10.0.0/24", "10.0.2.9", "gateway"),
    ],
)
def test_invalid_routes(destination, gateway, field):
    present = [NetworkRoute("10.9.0.0/16", "10.0.0.9")]
    subnets = [subnet("10.0.1.0/24"), subnet("10.0.2.0/24", kind="vswitch")]
    problems = route_problems(WHOLE, subnets, present, NetworkRoute(destination, gateway))
    assert field in problems

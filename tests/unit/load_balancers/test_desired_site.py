from typing import Any

import msgspec
import pytest
from desired_cases import LARGE, OLD, SMALL, balancer, observed, said, spec
from msgspec.structs import replace

from ccm.hetzner.api.models import (
    LoadBalancerPublicNet,
    LoadBalancerType,
    Location,
    PrimaryIp,
    PrivateNet,
    PublicAddress,
    Subnet,
)
from ccm.hetzner.load_balancers.cache import ObservedAddresses
from ccm.hetzner.load_balancers.desired.desired_state import Placement
from ccm.hetzner.load_balancers.desired.location_choice import (
    PlacementChoice,
    TypeChoice,
    choose_placement,
    choose_type,
)
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.settings import Tenants

LOCATIONS = (Location("fsn1", "eu-central"), Location("hel1", "eu-central"), Location("ash", "us-east"))
INSIDE: dict[str, Any] = {"network": 1, "private_ip": "10.0.0.9", "ip_range": "10.0.0.0/24"}
ASKED = {"private-ipv4": "10.0.0.9", "private-subnet-ip-range": "10.0.0.0/24"}
SUBNET = "~private-subnet-ip-range is '10.0.1.0/24', but the load balancer has the address 10.0.0.5"
FOREIGN = f"{PREFIX}preserve-foreign"
STAYS = (
    "a load balancer can't be moved: {}. Delete the load balancer, and the CCM creates a new one in the "
    "requested place"
)


class TestANewOne:
    def test_where_it_is_asked_for(self) -> None:
        there = observed(locations=LOCATIONS, network=1)
        assert choose_placement(spec({"location": "ash", **ASKED}), there) == PlacementChoice(
            Placement("ash"), **INSIDE
        )
        zone = PlacementChoice(Placement(network_zone="us-east"), network=1)
        assert choose_placement(spec({"network-zone": "us-east"}), there) == zone

    def test_where_most_servers_are_if_nothing_is_asked_for(self) -> None:
        there = observed(locations=LOCATIONS, network=1, zone="eu-central")
        assert choose_placement(spec(ASKED), there) == PlacementChoice(
            Placement(network_zone="eu-central"), **INSIDE
        )
        assert choose_placement(spec(), observed()) == PlacementChoice()

    @pytest.mark.parametrize(
        ("annotations", "variables", "key", "text"),
        [
            ({"location": "us-east"}, {}, "location", "~location: 'us-east' is not one of ash, fsn1, hel1"),
            (
                {"network-zone": "ash"},
                {},
                "network-zone",
                "~network-zone: 'ash' is not one of eu-central, us-east",
            ),
            (
                {},
                {"LOCATION": "nbg9"},
                "location",
                "HCLOUD_LOAD_BALANCERS_LOCATION: 'nbg9' is not one of ash, fsn1, hel1",
            ),
            (
                {"network-zone": " "},
                {"NETWORK_ZONE": "mars"},
                "network-zone",
                "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE: 'mars' is not one of eu-central, us-east",
            ),
        ],
    )
    def test_an_unknown_place(
        self, annotations: dict[str, str], variables: dict[str, str], key: str, text: str
    ) -> None:
        asked = spec({**annotations, **ASKED}, **variables)
        found = choose_placement(asked, observed(locations=LOCATIONS, network=1))
        assert found == PlacementChoice(
            Placement(asked.location, asked.network_zone),
            **INSIDE,
            problems={PREFIX + key: text.replace("~", PREFIX)},
        )


class TestOneThatIsThere:
    def test_it_is_where_it_is(self) -> None:
        there = observed(balancer(), locations=LOCATIONS, network=1)
        assert choose_placement(spec(ASKED), there) == PlacementChoice(**INSIDE)
        assert choose_placement(spec({"location": "nbg9"}), there).problems == {}

    def test_who_does_not_lead_has_no_say(self) -> None:
        assert (
            choose_placement(spec({"location": "ash"}), observed(balancer(), is_owner=False, network=1))
            == PlacementChoice()
        )

    @pytest.mark.parametrize(
        ("annotations", "parts"),
        [
            ({"location": "ash"}, ["~location is 'ash', but the load balancer is in fsn1"]),
            (
                {"network-zone": "us-east"},
                ["~network-zone is 'us-east', but the load balancer is in eu-central"],
            ),
            ({"location": "fsn1"}, []),
            ({"network-zone": "eu-central"}, []),
            (
                {"private-subnet-ip-range": "10.0.1.0/24"},
                [SUBNET],
            ),
            ({"private-subnet-ip-range": "10.0.0.0/24"}, []),
            ({"private-subnet-ip-range": "10.0.1.0/24", "private-ipv4": "10.0.0.5"}, []),
            (
                {"location": "ash", "private-subnet-ip-range": "10.0.1.0/24"},
                [
                    "~location is 'ash', but the load balancer is in fsn1",
                    SUBNET,
                ],
            ),
        ],
    )
    def test_a_later_change_is_reported_and_not_made(
        self, annotations: dict[str, str], parts: list[str]
    ) -> None:
        nets = (PrivateNet(2, "10.2.0.5"), PrivateNet(1, "10.0.0.5"))
        there = observed(balancer(location=LOCATIONS[0], private_net=nets), network=1)
        found = said(choose_placement(spec(annotations), there).notices)
        texts = "; ".join(parts).replace("~", PREFIX)
        assert found == ([("LoadBalancerNotMoved", STAYS.format(texts))] if parts else [])

    def test_a_default_of_the_environment_moves_nothing_and_says_nothing(self) -> None:
        there = observed(balancer(location=LOCATIONS[0], private_net=(PrivateNet(1, "10.0.0.5"),)), network=1)
        for variables in (
            {"LOCATION": "ash"},
            {"NETWORK_ZONE": "us-east"},
            {"PRIVATE_SUBNET_IP_RANGE": "10.9.0.0/24"},
        ):
            assert choose_placement(spec({}, **variables), there).notices == ()

    def test_what_the_api_does_not_say_is_nothing_to_complain_about(self) -> None:
        asked = spec({"location": "ash", "private-subnet-ip-range": "10.0.1.0/24"})
        assert choose_placement(asked, observed(balancer(), network=1)).notices == ()
        for ip in ("", "odd"):
            there = observed(balancer(private_net=(PrivateNet(1, ip),)), network=1)
            assert choose_placement(asked, there).notices == ()

    @pytest.mark.parametrize(
        ("annotations", "problems"),
        [
            ({"private-ipv4": "10.0.0.9"}, {}),
            ({"private-ipv4": "10.0.0.9", "private-subnet-ip-range": "10.0.0.0/24"}, {}),
            ({"private-subnet-ip-range": "10.0.1.0/24"}, {}),
            ({"private-ipv4": "10.0.0.7"}, {"private-ipv4": "'10.0.0.7' belongs to server a (3)"}),
            (
                {"private-ipv4": "10.0.0.9", "private-subnet-ip-range": "10.0.1.0/24"},
                {"private-ipv4": "'10.0.0.9' is not in the requested subnet 10.0.1.0/24"},
            ),
            (
                {"private-ipv4": "10.0.2.9"},
                {"private-ipv4": "'10.0.2.9' isn't in a subnet of the network (10.0.0.0/24, 10.0.1.0/24)"},
            ),
            (
                {"private-subnet-ip-range": "10.0.2.0/24"},
                {
                    "private-subnet-ip-range": "'10.0.2.0/24' isn't a subnet of the network "
                    "(10.0.0.0/24, 10.0.1.0/24)"
                },
            ),
        ],
    )
    def test_an_address_that_it_can_not_have(
        self, annotations: dict[str, str], problems: dict[str, str]
    ) -> None:
        subnets = [
            Subnet("10.0.0.0/24", "eu-central"),
            Subnet("10.0.1.0/24", "eu-central"),
            Subnet("10.0.2.0/24", "us-east"),
        ]
        known = ObservedAddresses(tuple(subnets), {"10.0.0.7": "server a (3)"})
        there = balancer(location=LOCATIONS[0], private_net=(PrivateNet(8, "10.8.0.5"),))
        found = choose_placement(spec(annotations), observed(there, network=1, addresses=known)).problems
        assert found == {PREFIX + key: f"{PREFIX}{key}: {text}" for key, text in problems.items()}
        held = spec({"preserve-foreign": "true", **annotations})
        assert choose_placement(held, observed(there, network=1, addresses=known)).problems == {}

    def test_a_network_without_subnets(self) -> None:
        there = observed(balancer(), network=1, addresses=ObservedAddresses())
        [text] = choose_placement(spec({"private-ipv4": "10.0.0.9"}), there).problems.values()
        assert text.endswith("'10.0.0.9' isn't in a subnet of the network (it has none)")

    def test_one_that_others_need_in_another_network_stays_there(self) -> None:
        nets = (PrivateNet(8, "10.8.0.5"), PrivateNet(9, "10.9.0.5"))
        preserve = spec({"preserve-foreign": "true", **ASKED})
        held = choose_placement(preserve, observed(balancer(private_net=nets), network=1))
        assert (held.network, held.private_ip, held.ip_range) == (None, "10.0.0.9", "10.0.0.0/24")
        text = (
            f"the load balancer stays in network 8, 9, because {FOREIGN} is set. "
            "Ports or targets of other clients may need that network"
        )
        assert said(held.notices) == [("LoadBalancerNotMoved", text)]
        moved = choose_placement(spec(), observed(balancer(private_net=nets), network=1))
        assert (moved.network, moved.notices) == (1, ())
        for there in (balancer(private_net=(*nets, PrivateNet(1, "10.0.0.9"))), balancer()):
            assert choose_placement(preserve, observed(there, network=1)) == PlacementChoice(**INSIDE)
        assert choose_placement(preserve, observed(balancer(private_net=nets))).notices == ()
        assert choose_placement(preserve, observed(network=1, zone="z")).network == 1


FOUR = PrimaryIp(4, "four", "ipv4", "203.0.113.4", LOCATIONS[1])
SIX = PrimaryIp(6, "six", "ipv6", "2001:db8::/64", LOCATIONS[1])
ON_FOUR, ON_SIX = {"public-net-ipv4": "four"}, {"public-net-ipv6": "6"}


class TestOnPrimaryIps:
    @pytest.mark.parametrize("more", [{}, {"location": "hel1"}, {"network-zone": "eu-central"}])
    @pytest.mark.parametrize("variables", [{}, {"LOCATION": "fsn1"}, {"NETWORK_ZONE": "us-east"}])
    def test_it_is_made_where_they_are(self, more: dict[str, str], variables: dict[str, str]) -> None:
        asked = spec({**ON_FOUR, **ON_SIX, **more}, **variables)
        there = observed(locations=LOCATIONS, zone="us-east", primary_ips={"ipv4": FOUR, "ipv6": SIX})
        found = choose_placement(asked, there)
        assert (found.site, found.problems) == (Placement("hel1"), {})
        assert found.primary_ips == {"ipv4": FOUR, "ipv6": SIX}

    @pytest.mark.parametrize(
        ("ip", "more", "why"),
        [
            (None, {}, "isn't the ID or name"),
            (
                replace(FOUR, type="ipv6"),
                {},
                f"is an ipv6 address. Use the annotation {PREFIX}public-net-ipv6",
            ),
            (replace(FOUR, assignee_id=9), {}, "is already assigned"),
            (replace(FOUR, blocked=True), {}, "is blocked"),
            (FOUR, {"location": "fsn1"}, f"is in hel1, but {PREFIX}location is 'fsn1'"),
            (FOUR, {"network-zone": "us-east"}, f"is in eu-central, but {PREFIX}network-zone is 'us-east'"),
            (replace(FOUR, labels={"ccm-from-scratch/namespace": "else"}), {}, "isn't the ID or name"),
            (replace(FOUR, labels={"ccm-from-scratch/cluster": "else"}), {}, "isn't the ID or name"),
        ],
    )
    def test_on_none_that_it_can_t_have(self, ip: PrimaryIp | None, more: dict[str, str], why: str) -> None:
        asked = spec({**ON_FOUR, **more})
        found = choose_placement(asked, observed(locations=LOCATIONS, primary_ips={"ipv4": ip}))
        key = f"{PREFIX}public-net-ipv4"
        assert found.problems[key].startswith(f"{key}: 'four' {why}")

    def test_not_in_two_places(self) -> None:
        there = {"ipv4": FOUR, "ipv6": replace(SIX, location=LOCATIONS[0])}
        found = choose_placement(spec({**ON_FOUR, **ON_SIX}), observed(primary_ips=there))
        assert "is in fsn1, but the other Primary IP is in hel1" in found.problems[f"{PREFIX}public-net-ipv6"]

    def test_a_label_is_for_a_namespace_where_the_operator_says_so(self) -> None:
        asked = spec(ON_FOUR)
        for label, allowed, problems in (("shop", set(), 0), ("", set(), 1), ("", {"shop"}, 0)):
            labels = {"ccm-from-scratch/namespace": label} if label else {}
            there = observed(
                primary_ips={"ipv4": replace(FOUR, labels=labels)},
                tenants=Tenants(unlabelled_ips=frozenset(allowed)),
            )
            assert len(choose_placement(asked, there).problems) == problems

    @pytest.mark.parametrize(("number", "notice_count"), [(4, 0), (6, 1), (0, 1), (None, 1)])
    @pytest.mark.parametrize("is_owner", [True, False])
    def test_one_that_is_there_keeps_its_addresses(
        self, number: int | None, notice_count: int, *, is_owner: bool
    ) -> None:
        net = LoadBalancerPublicNet(True, PublicAddress("203.0.113.1", id=number))
        there = observed(balancer(public_net=net), primary_ips={"ipv4": FOUR}, is_owner=is_owner)
        for named in ("four", "4"):
            found = choose_placement(spec({"public-net-ipv4": named}), there)
            assert [notice.reason for notice in found.notices] == ["PrimaryIPNotAssigned"] * notice_count
            start = f"{PREFIX}public-net-ipv4: load balancer there (7) keeps 203.0.113.1, "
            assert all(notice.message.startswith(start) for notice in found.notices)
            assert found.problems == {}


DEPRECATED = [("LoadBalancerTypeDeprecated", "type old of shop/web is deprecated")]


def test_a_deprecated_one_is_named_since_the_api_says_when_it_ends() -> None:
    wire = {"name": "lb11", "deprecation": {"announced": "2026-01-01", "unavailable_after": "2027-01-01"}}
    kind = msgspec.convert(wire, LoadBalancerType)
    found = choose_type(spec(), observed(balancer(load_balancer_type=kind), types={}))
    text = "type lb11 of shop/web is deprecated, and unavailable after 2027-01-01"
    assert said(found.notices) == [("LoadBalancerTypeDeprecated", text)]


def test_where_types_are_not_known_it_stays() -> None:
    there = balancer(load_balancer_type=LARGE)
    assert choose_type(spec({"type": "lb11"}), observed(there, types={})) == TypeChoice(LARGE, None)
    stays = choose_type(spec(), observed(balancer(load_balancer_type=OLD), types={}))
    assert (stays.type, stays.limits, said(stays.notices)) == (None, OLD, DEPRECATED)


@pytest.mark.parametrize(
    ("annotations", "variables", "name"),
    [({"type": "lb99"}, {}, f"{PREFIX}type"), ({}, {"TYPE": "lb99"}, "HCLOUD_LOAD_BALANCERS_TYPE")],
)
def test_one_that_there_is_not(annotations: dict[str, str], variables: dict[str, str], name: str) -> None:
    problems = {f"{PREFIX}type": f"{name}: 'lb99' is not one of lb11, lb21, old"}
    asked = spec(annotations, **variables)
    assert choose_type(asked, observed()) == TypeChoice(LoadBalancerType(), problems=problems)
    there = balancer(load_balancer_type=LARGE)
    assert choose_type(asked, observed(there)) == TypeChoice(LARGE, problems=problems)


def test_the_usual_one_comes_back_only_where_it_is_large_enough() -> None:
    there = balancer({}, 80, 81, 82, load_balancer_type=LARGE)
    found = choose_type(spec(), observed(there))
    assert (found.limits, found.type, found.kept) == (LARGE, None, {"type"})
    assert said(found.notices) == [
        (
            "LoadBalancerTypeKept",
            (
                "no type is configured, and the default type lb11 is too small for the ports or nodes of "
                "this Service. The load balancer keeps the type lb21"
            ),
        )
    ]
    assert choose_type(spec({"type": "lb11"}), observed(there)) == TypeChoice(SMALL, SMALL)
    fitting = balancer({}, 80, 81, load_balancer_type=LARGE)
    assert choose_type(spec(), observed(fitting)) == TypeChoice(SMALL, SMALL)

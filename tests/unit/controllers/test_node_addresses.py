import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.cloud import Address
from ccm.controllers.names import PROVIDED_NODE_IP
from ccm.controllers.node_addresses import ProvidedNodeIpInvalid, prefer, wanted_addresses
from ccm.ip import parse_address
from ccm.kube.objects import Node, NodeAddress, NodeStatus, ObjectMeta

IN, EX, HOST, DNS = "InternalIP", "ExternalIP", "Hostname", "InternalDNS"


def of(*pairs: tuple[str, str]) -> list[Address]:
    return [Address(kind, address) for kind, address in pairs]


@pytest.mark.parametrize(
    ("offered", "provided", "expected"),
    [
        pytest.param([(IN, "10.1.1.1")], "10.1.1.1", [(IN, "10.1.1.1")], id="the only one"),
        pytest.param(
            [(IN, "10.1.1.1"), (EX, "55.55.55.55"), (HOST, "a")],
            "55.55.55.55",
            [(EX, "55.55.55.55"), (IN, "10.1.1.1"), (HOST, "a")],
            id="external goes first, others stay",
        ),
        pytest.param(
            [(IN, "10.1.1.1"), (EX, "55.55.55.55"), (EX, "10.1.1.1"), (IN, "10.1.1.2")],
            "10.1.1.1",
            [(IN, "10.1.1.1"), (EX, "10.1.1.1")],
            id="the same address under two types is kept, all others of both types go",
        ),
        pytest.param(
            [(IN, "10.1.1.1"), (DNS, "a.internal"), (HOST, "a")],
            "10.1.1.1",
            [(IN, "10.1.1.1"), (DNS, "a.internal"), (HOST, "a")],
            id="names are kept",
        ),
        pytest.param(
            [(IN, "10.1.1.1"), (IN, "10.1.1.2"), (IN, "10.1.1.3"), (HOST, "a")],
            "10.1.1.2",
            [(IN, "10.1.1.2"), (HOST, "a")],
            id="one of several internal ones",
        ),
        pytest.param(
            [(IN, "2600:1f14:1d4:d101::ba3d"), (HOST, "a")],
            "2600:1f14:1d4:d101:0:0:0:ba3d",
            [(IN, "2600:1f14:1d4:d101::ba3d"), (HOST, "a")],
            id="the cloud's spelling of IPv6 is kept",
        ),
        pytest.param(
            [(IN, "fd01::1"), (IN, "10.1.1.1"), (IN, "10.1.1.2"), (EX, "55.55.55.55")],
            "10.1.1.1,fd01::1",
            [(IN, "10.1.1.1"), (IN, "fd01::1"), (EX, "55.55.55.55")],
            id="a pair stands in the order asked for",
        ),
        pytest.param(
            [(IN, "10.1.1.1"), (EX, "2001:db8::1"), (EX, "55.55.55.55"), (IN, "fd01::2")],
            "10.1.1.1,2001:db8::1",
            [(IN, "10.1.1.1"), (EX, "2001:db8::1")],
            id="a pair of two types drops the others of both",
        ),
    ],
)
def test_provided_addresses_go_first_and_alone_in_their_type(offered, provided, expected) -> None:
    assert prefer("a", of(*offered), provided) == of(*expected)


@pytest.mark.parametrize(
    ("provided", "why"),
    [("10.9.9.9", "failed to get node address from cloud provider that matches ip: 10.9.9.9"),
     ("10.1.1.1,fd01::1", "matches ip: fd01::1"),
     ("", "could not parse ''"), ("invalid-ip", "could not parse 'invalid-ip'"),
     ("10.1.1.1, fd00::1", "could not parse ' fd00::1'"),
     ("10.1.1.1,10.1.1.2", "'10.1.1.1,10.1.1.2' must be one IPv4 address and one IPv6 address"),
     ("10.1.1.1,::", "'10.1.1.1,::' has an unspecified address"),
     ("10.1.1.1,fd00::1,fd00::2", "'10.1.1.1,fd00::1,fd00::2' has more than two addresses")],
)  # fmt: skip
def test_what_cannot_be_met_is_an_error_that_holds_both_sides(provided: str, why: str) -> None:
    offered = of((IN, "10.1.1.1"), (IN, "fd00::1"), (HOST, "a"))
    with pytest.raises(ProvidedNodeIpInvalid) as error:
        prefer("a", offered, provided)
    assert str(error.value).startswith('provided node ip for node "a" is not valid: ')
    assert str(error.value).endswith(why)
    assert (error.value.node, error.value.provided, error.value.offered) == ("a", provided, tuple(offered))


def a_node(*addresses: tuple[str, str], provided: str | None = None) -> Node:
    annotations = {} if provided is None else {PROVIDED_NODE_IP: provided}
    status = NodeStatus(addresses=tuple(NodeAddress(type=kind, address=text) for kind, text in addresses))
    return Node(metadata=ObjectMeta(name="a", annotations=annotations), status=status)


def test_the_kubelets_host_name_stays_if_the_cloud_has_none() -> None:
    wanted = wanted_addresses(a_node((HOST, "kubelet"), (IN, "10.0.0.9")), of((IN, "10.0.0.1")))
    assert wanted == of((IN, "10.0.0.1"), (HOST, "kubelet"))


def test_the_kubelets_annotation_says_what_is_provided() -> None:
    offered = of((IN, "10.0.0.1"), (IN, "10.0.0.2"), (HOST, "cloud"))
    assert wanted_addresses(a_node(provided="10.0.0.2"), offered) == of((IN, "10.0.0.2"), (HOST, "cloud"))
    with pytest.raises(ProvidedNodeIpInvalid, match=r'node "a" .* matches ip: 10\.0\.0\.3'):
        wanted_addresses(a_node(provided="10.0.0.3"), offered)


def test_the_clouds_host_name_wins() -> None:
    wanted = wanted_addresses(a_node((HOST, "kubelet")), of((HOST, "cloud"), (IN, "10.0.0.1")))
    assert wanted == of((HOST, "cloud"), (IN, "10.0.0.1"))


ips = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
kinds = st.sampled_from([IN, EX])
offers = st.lists(st.tuples(kinds, ips), min_size=1, max_size=6).map(lambda pairs: of(*pairs))


@given(offered=offers, data=st.data())
def test_one_provided_address(offered: list[Address], data: st.DataObject) -> None:
    """First, alone in its types, nothing invented, other types untouched and in order, and stable."""
    provided = data.draw(st.sampled_from(offered)).address
    wanted = prefer("a", offered, provided)
    ip = parse_address(provided)  # an IPv6 address that maps an IPv4 address is that one
    enforced = {one.type for one in offered if parse_address(one.address) == ip}
    assert parse_address(wanted[0].address) == ip
    assert set(wanted) <= set(offered)
    assert all(parse_address(one.address) == ip for one in wanted if one.type in enforced)
    rest = [one for one in offered if one.type not in enforced]
    assert [one for one in wanted if one.type not in enforced] == rest
    assert prefer("a", wanted, provided) == wanted

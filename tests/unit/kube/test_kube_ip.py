from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccm.ip import parse_address, parse_network


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("10.0.0.1", "10.0.0.1"), ("010.000.0.01", "10.0.0.1"), ("0.0.0.0", "0.0.0.0"),
        ("00.0.00.000", "0.0.0.0"), ("100.010.020.200", "100.10.20.200"), ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:010.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::1"), ("fe80::1", "fe80::1"),
        ("fe80::1%eth0", None), ("::ffff:10.0.0.1%eth0", None),
        ("10.0.0", None), ("10.0.0.256", None), ("10.0.0.1/8", None), ("", None),
        ("host", None), (" 10.0.0.1", None), ("10.0.0.1.", None), ("::ffff:10.0.0", None),
    ],
)  # fmt: skip
def test_addresses(text: str, means: str | None) -> None:
    assert parse_address(text) == (ip_address(means) if means else None)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("10.244.0.0/16", "10.244.0.0/16"), ("010.244.000.000/16", "10.244.0.0/16"),
        ("10.244.3.7/16", "10.244.0.0/16"), ("10.244.0.0/08", "10.0.0.0/8"), ("fd00::/56", "fd00::/56"),
        ("10.244.0.0", None), ("10.244.0.0/255.255.0.0", None), ("10.244.0.0/33", None),
        ("10.244.0.0/", None),
        ("fe80::%eth0/64", None), ("nonsense", None), ("", None), ("10.0.0.0/-1", None),
    ],
)  # fmt: skip
def test_networks(text: str, means: str | None) -> None:
    assert parse_network(text) == (ip_network(means) if means else None)


@pytest.mark.parametrize(("length", "is_read"), [(100, True), (101, False)])
def test_how_long_a_text_may_be(length: int, is_read: bool) -> None:
    assert (parse_address("10.0.0.1".rjust(length, "0")) == ip_address("10.0.0.1")) is is_read
    assert (parse_network("10.0.0.0/24".rjust(length, "0")) == ip_network("10.0.0.0/24")) is is_read


@given(st.ip_addresses())
def test_what_everybody_writes_is_read_as_it_is(address) -> None:
    mapped = getattr(address, "ipv4_mapped", None)
    assert parse_address(str(address)) == (mapped or address)
    assert parse_network(f"{address}/{address.max_prefixlen}") == ip_network(str(address))


@given(st.text(max_size=30))
def test_nothing_ends_in_an_error(text: str) -> None:
    parse_address(text)
    parse_network(text)

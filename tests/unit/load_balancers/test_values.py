from typing import Any

import pytest

from ccm.hetzner.load_balancers.spec.official_format import OfficialFormat
from ccm.hetzner.load_balancers.spec.selector import Requirement, Selector
from ccm.hetzner.load_balancers.spec.values import (
    BOOLEAN,
    DOMAIN,
    DOMAINS,
    HOSTNAME,
    IPV4,
    LABEL,
    LABELS,
    LIST,
    MAX_ITEMS,
    MAX_SELECTOR_LENGTH,
    NETWORK,
    PRIMARY_IP,
    SELECTOR,
    STATUS_CODES,
    Kind,
    choice,
    number,
    seconds,
    text,
    whole,
)

LONGEST_DOMAIN = ".".join(["x" * 63] * 3 + ["x" * 61])
MOST = [f"{number}.example" for number in range(MAX_ITEMS)]


def test_texts_of_so_many_characters() -> None:
    kind = text(5)
    assert kind == Kind("at most 5 characters", kind.read, "", OfficialFormat.TEXT)
    assert [kind.parse(one) for one in ("", "abcde", "abcdef")] == ["", "abcde", None]
    assert text().allowed == "at most 256 characters"
    assert [text().parse("x" * length) for length in (256, 257)] == ["x" * 256, None]


def test_whole_numbers_between_bounds() -> None:
    kind = number(3, 60)
    assert kind == Kind("a whole number from 3 to 60", kind.read, None, OfficialFormat.INTEGER)
    found = {one: kind.parse(one) for one in ("2", "3", "060", "61", "-3", "3.0", "", "x", "٣", "²")}
    assert found == dict.fromkeys(found) | {"3": 3, "060": 60}


def test_seconds_between_bounds() -> None:
    kind = seconds(30, 300)
    allowed = "30 to 300 seconds, as a number or as a duration like 30s"
    assert kind == Kind(allowed, kind.read, None, OfficialFormat.DURATION)
    right = {"30": 30, "30s": 30, "30.9s": 30, "0.5m": 30, "5m": 300, "300.9s": 300, "0" * 36 + "30s": 30}
    assert {one: kind.parse(one) for one in right} == right
    wrong = ("29", "29.9s", "301", "301s", "-30", "", "s", "soon", "0" * 37 + "30s", "0" * 100 + "30")
    assert {kind.parse(one) for one in wrong} == {None}


def test_one_of_several_words() -> None:
    kind = choice("tcp", "http")
    assert kind == Kind("tcp or http", kind.read, None, OfficialFormat.WORD)
    assert [kind.parse(one) for one in ("tcp", "HTTP", "Tcp", "udp", "", "tcp or http")] == [
        *("tcp", "http", "tcp"),
        *(None, None, None),
    ]


RIGHT: list[tuple[Kind, str, Any]] = [
    (BOOLEAN, "tRue", True),
    (BOOLEAN, "0", False),
    (DOMAIN, "Shop.Example.COM.", "shop.example.com"),
    (DOMAIN, "localhost", "localhost"),
    (DOMAIN, "shop.EX", "shop.ex"),
    (DOMAIN, LONGEST_DOMAIN, LONGEST_DOMAIN),
    (DOMAINS, "B.example, a.example.,,b.example", ("b.example", "a.example")),
    (DOMAINS, "*.example.com", ("*.example.com",)),
    (DOMAINS, ",".join(MOST), tuple(MOST)),
    (HOSTNAME, "Shop.Example.COM.", "shop.example.com"),
    *((HOSTNAME, one, one) for one in ("a.b.c.d", "1.2.3", "1.2.3.256", "1.2.3.4.5")),
    (IPV4, "10.0.0.9", "10.0.0.9"),
    *((PRIMARY_IP, one, one) for one in ("4711", "shop", "x" * 128)),
    (NETWORK, "10.0.1.7/24", "10.0.1.0/24"),
    (NETWORK, "10.0.1.0/255.255.255.0", "10.0.1.0/24"),
    (NETWORK, "10.0.1.7", "10.0.1.7/32"),
    (LIST, "b, a,,b ,", ("b", "a")),
    (LIST, ",", ()),
    (LIST, ",".join(MOST), tuple(MOST)),
    (LIST, ",".join([*MOST, *MOST]) + ",", tuple(MOST)),
    (STATUS_CODES, "200,2??, 3*,*,?0*", ("200", "2??", "3*", "*", "?0*")),
    (STATUS_CODES, "204", ("204",)),
    (STATUS_CODES, ",".join(map(str, range(200, 220))), tuple(map(str, range(200, 220)))),
    (LABEL, "a-b_c.D", "a-b_c.D"),
    (LABEL, "x" * 63, "x" * 63),
    (LABELS, "team=shop, a.example/x = y ,empty=", {"team": "shop", "a.example/x": "y", "empty": ""}),
    (LABELS, "team=shop,team=other", {"team": "other"}),
    (LABELS, ",", {}),
    (SELECTOR, "a=b", Selector((Requirement("a", "in", frozenset({"b"})),))),
    (
        SELECTOR,
        "a=b" + " " * (MAX_SELECTOR_LENGTH - 3),
        Selector((Requirement("a", "in", frozenset({"b"})),)),
    ),
]


@pytest.mark.parametrize(("kind", "written", "value"), RIGHT)
def test_what_is_one_and_what_it_means(kind: Kind, written: str, value: object) -> None:
    assert kind.parse(written) == value
    assert type(kind.parse(written)) is type(value)


WRONG = [
    (BOOLEAN, "yes"),
    (DOMAIN, "*.example.com"),
    (DOMAIN, "no spaces here"),
    (DOMAIN, LONGEST_DOMAIN + "x"),
    (DOMAIN, "."),
    (DOMAINS, ""),
    (DOMAINS, ","),
    (DOMAINS, "a.example,-"),
    (DOMAINS, "-,a.example"),
    (DOMAINS, ",".join([*MOST, "one.more"])),
    *(
        (HOSTNAME, one)
        for one in ("*.example.com", "010.1.2.255", "10.0.0.1.", "1.2.3.²", "1.2.3." + "9" * 5000)
    ),
    (IPV4, "10.0.0.300"),
    *((PRIMARY_IP, one) for one in ("203.0.113.9", "10.0.0.1/8", "2001:db8::/64", "x" * 129)),
    (IPV4, "2001:db8::1"),
    (IPV4, " " * 40 + "10.0.0.9"),
    (NETWORK, "10.0.0.0/40"),
    (NETWORK, "2001:db8::/64"),
    (NETWORK, "x" * 60),
    (LIST, ",".join([*MOST, "one.more"])),
    (LIST, "a" + "," * (2 * MAX_ITEMS + 1)),
    (STATUS_CODES, ""),
    (STATUS_CODES, "20"),
    (STATUS_CODES, "200,20"),
    (STATUS_CODES, "600"),
    (STATUS_CODES, ",".join(map(str, range(200, 221)))),
    (LABEL, "x" * 64),
    (LABEL, "a b"),
    (LABELS, "team"),
    (LABELS, "=shop"),
    (LABELS, "team=a b"),
    (LABELS, "good=yes,team"),
    (LABELS, "A.example/x=y"),
    (LABELS, "ccm-from-scratch/x=y"),
    (LABELS, "hetzner.cloud/x=y"),
    (LABELS, ",".join(f"a{number}=b" for number in range(MAX_ITEMS + 1))),
    (SELECTOR, "a in b"),
    (SELECTOR, "a=b" + " " * (MAX_SELECTOR_LENGTH - 2)),
]


@pytest.mark.parametrize(("kind", "written"), WRONG)
def test_what_is_none(kind: Kind, written: str) -> None:
    assert kind.parse(written) is None


def test_numbers_have_at_most_nine_digits() -> None:
    assert [whole(one) for one in ("0", "999999999", "1000000000", "", "-1", "²", "٣")] == [
        *(0, 999999999),
        *([None] * 5),
    ]

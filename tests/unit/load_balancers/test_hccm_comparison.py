import re
from collections.abc import Callable
from typing import Any

import pytest
from balancer_site import LABEL, BalancerSite, view
from hypothesis import assume, given
from hypothesis import strategies as st

from ccm.cloud import ServicePort
from ccm.hetzner.load_balancers.hccm_comparison import OURS, compare_with_hccm
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec.annotation_table import TABLE, Key
from ccm.hetzner.load_balancers.spec.load_balancer_spec import read
from ccm.hetzner.load_balancers.spec.official_format import OfficialFormat, official_spelling
from ccm.hetzner.settings import environment
from tests.annotation_examples import EXAMPLES

LOCAL: dict[str, Any] = {"external_traffic_policy": "Local", "health_check_node_port": 31234}
PLAIN = {"HCLOUD_TOKEN": "t" * 64, "HCLOUD_NETWORK": "net"}


def differences(annotations: dict[str, str], *ports: int | ServicePort, **more: Any) -> list[str]:
    variables = PLAIN | {key: value for key, value in more.items() if key.isupper()}
    fields = {key: value for key, value in more.items() if not key.isupper()}
    service = view("web", *(ports or (80, 443)), annotations=annotations, **fields)
    defaults = environment.read(variables).load_balancers
    return list(compare_with_hccm(service, defaults, network=True))


def test_what_both_understand_is_not_named() -> None:
    assert differences({}) == []
    everything = {
        "name": "shop",
        "location": "fsn1",
        "algorithm-type": "Least_Connections",
        "use-private-ip": "T",
        "ipv6-disabled": "0",
        "protocol": "HTTPS",
        "http-certificates": "a,b",
        "http-redirect-http": "true",
        "health-check-protocol": "http",
        "health-check-interval": "20s",
        "health-check-timeout": "2s",
        "health-check-port": "8080",
        "http-status-codes": "200,3??",
        "node-selector": " pool in (edge, web) , !spot",
        "private-subnet-ip-range": "10.0.1.7/24",
        "certificate-type": "uploaded",
        "id": " 7 ",
        "health-check-retries": "3",
    }
    assert differences(everything, 443) == []


@pytest.mark.parametrize("key", [key.name for key in TABLE if key.ours])
def test_every_key_of_ours_says_what_would_happen_and_what_to_do(key: str) -> None:
    [sentence] = differences({key: EXAMPLES[key]})
    assert sentence == f"{PREFIX}{key}: {OURS[key]}"


def test_a_protected_one_is_not_deleted_by_the_official_one() -> None:
    sentences = differences({"adopt": "4711", "delete-protection": "true"})
    assert not any("deletes the load balancer" in one for one in sentences)
    assert differences({"preserve-foreign": "false"}) == []


def test_keys_of_single_ports() -> None:
    protocol, certificates = differences({"port.443.protocol": "https", "port.443.http-certificates": "shop"})
    assert protocol == (
        f"{PREFIX}port.443.protocol: the official CCM doesn't support annotations for one port. The "
        "annotation protocol, which applies to all ports, is not set, so the official CCM changes port 443 "
        "to tcp without certificates, and sends no Event. Set protocol for all ports, or move the port to "
        "its own Service"
    )
    assert certificates.startswith(
        f"{PREFIX}port.443.http-certificates: the official CCM doesn't support annotations for one port"
    )
    assert differences({"protocol": "http", "port.443.protocol": "http", "port.80.protocol": " HTTP "}) == []


UNREADABLE = [
    ("health-check-interval", "20", "20s"),
    ("health-check-protocol", " http ", "http"),
    ("use-private-ip", "tRUE", "true"),
    ("use-private-ip", "", None),
    ("health-check-port", " 8080 ", "8080"),
    ("http-certificates", "a, b,", "a,b"),
    ("name", "", None),
    ("type", "LB21", "lb21"),
    ("hostname", "shop.example.com.", "shop.example.com"),
    ("private-subnet-ip-range", "10.0.1.7/255.255.255.0", "10.0.1.0/24"),
    ("http-managed-certificate-acme-staging", "tRue", "true"),
]


@pytest.mark.parametrize(("key", "value", "better"), UNREADABLE)
def test_values_that_only_ours_reads(key: str, value: str, better: str | None) -> None:
    context = {
        "protocol": "https",
        "http-certificates": "a",
        "health-check-protocol": "http",
        "http-managed-certificate-domains": "a.example.com",
    }
    [sentence] = differences(context | {key: value}, 443)
    assert sentence.startswith(f"{PREFIX}{key}: {value!r}: the official CCM ")
    assert sentence.endswith("Remove the annotation" if better is None else f"Set the value {better!r}")


def test_what_is_read_at_deletion_blocks_deletion() -> None:
    keys = [
        key.name
        for key in TABLE
        if key.official is OfficialFormat.BOOLEAN and not key.name.startswith("http-")
    ]
    blocking = {key for key in keys if "can't delete" in differences({key: " true "})[0]}
    assert blocking == {"ipv6-disabled", "disable-private-ingress", "uses-proxyprotocol"}


def test_what_ours_refuses_is_not_named_again() -> None:
    assert differences({"health-check-interval": " soon ", "use-private-ip": "yes"}) == []


def test_https_with_a_health_check() -> None:
    [sentence] = differences(
        {"protocol": "https", "http-certificates": "a", "health-check-interval": "20s"}, 443
    )
    assert "configure a health check: health-check-interval" in sentence
    assert sentence.endswith("Set health-check-protocol to 'http'")
    [sentence] = differences({"health-check-protocol": "HTTPS"}, 80)
    assert "'http', and health-check-http-validate-certificate to 'true'" in sentence
    [sentence] = differences(
        {"protocol": "https", "http-certificates": "a"}, 443, HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES="2"
    )
    assert "configure a health check: HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES" in sentence
    assert differences({"protocol": "https", "http-certificates": "a"}, 443) == []
    # Its keys of single ports don't reach the official one at all.
    sentences = differences({"port.443.protocol": "https", "port.443.health-check-interval": "20s"})
    assert not any("asks the API" in one for one in sentences)


def test_local_traffic() -> None:
    [sentence] = differences({}, **LOCAL)
    assert "health-check-port: '31234'" in sentence
    instead = {
        "health-check-protocol": "http",
        "health-check-port": "31234",
        "health-check-http-path": "/healthz",
        "http-status-codes": "200",
    }
    assert differences(instead, **LOCAL) == []


async def test_a_check_that_was_taken_over_is_the_official_ones_already(site: BalancerSite) -> None:
    local = view(**LOCAL)
    await site.ensure(local)
    [sentence] = await site.balancers.differences(local, "official")
    assert "spec.externalTrafficPolicy: 'Local'" in sentence
    other = view("other", uid="99999999-2222-3333-4444-555555555555", **LOCAL)
    await site.make("theirs", labels={LABEL: other.uid})
    await site.restart()
    assert await site.balancers.differences(other, "official") == []


def test_fields_besides_annotations() -> None:
    [sentence] = differences({}, load_balancer_class="ours")
    assert sentence.startswith("spec.loadBalancerClass: ")
    [sentence] = differences({}, ServicePort(53, 30053, "UDP"))
    assert "without ports" in sentence


_DURATION = r"[-+]?(0|([0-9]*\.?[0-9]*(?<=[0-9.])(ns|us|µs|μs|ms|s|m|h))+)"
GO: dict[OfficialFormat, Callable[[str], bool]] = {
    OfficialFormat.BOOLEAN: lambda text: (
        text in ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]
    ),
    OfficialFormat.INTEGER: lambda text: re.fullmatch(r"[-+]?[0-9]+", text) is not None,
    OfficialFormat.DURATION: lambda text: re.fullmatch(_DURATION, text) is not None,
    OfficialFormat.WORD: lambda text: re.fullmatch(r"[a-z_]+", text.lower()) is not None,
    OfficialFormat.LOWER: lambda text: text == text.lower().strip(),
    OfficialFormat.TEXT: lambda text: text == text.strip(),
    OfficialFormat.DOMAIN: lambda text: text == text.strip().rstrip("."),
    OfficialFormat.LIST: lambda text: all(part and part == part.strip() for part in text.split(",")),
    OfficialFormat.NETWORK: lambda text: re.fullmatch(r"[0-9]+(\.[0-9]+){3}/[0-9]+", text) is not None,
}
GO[OfficialFormat.STAGING] = GO[OfficialFormat.BOOLEAN]


def spec_of(key: Key, value: str) -> Any:
    annotations = {
        "protocol": "https",
        "certificate-type": "managed",
        "http-managed-certificate-domains": "a.example.com",
        "health-check-protocol": "http",
        key.name: value,
    }
    defaults = environment.read(PLAIN).load_balancers
    return read(view("web", 443, annotations=annotations), defaults, network=True)


@given(
    st.sampled_from([key for key in TABLE if key.official in GO]),
    st.data(),
    st.sampled_from(["{}", " {}", "{} ", "\t{}\n", "{},", " , {}", "{}."]),
)
def test_the_better_spelling_is_equal_and_readable_by_go(key: Key, data: st.DataObject, frame: str) -> None:
    usual = [
        EXAMPLES[key.name],
        EXAMPLES[key.name].upper(),
        "tRue",
        "F",
        "20",
        "1m",
        "0.5m",
        "٣s",
        "10.0.0.0/255.0.0.0",
        "x",
    ]
    value = frame.format(data.draw(st.sampled_from(usual) | st.text(max_size=12)))
    requested = spec_of(key, value)
    assume(PREFIX + key.name not in requested.problems)
    better = official_spelling(key.official, value)
    assert official_spelling(key.official, better) == better
    if not better:
        assert not value.replace(",", " ").strip()
        return
    assert GO[key.official](better), better
    again = spec_of(key, better)
    assert (again.ports, again.name, again.type, again.ip_range) == (
        requested.ports,
        requested.name,
        requested.type,
        requested.ip_range,
    )


async def test_an_adopted_one_is_named_after_its_annotation_has_gone(site: BalancerSite) -> None:
    theirs = await site.make("theirs")
    await site.ensure(view(annotations={"adopt": "theirs"}))
    without = view()
    await site.ensure(without)
    [sentence] = await site.balancers.differences(without, "official")
    assert (
        f"({theirs['id']}), whose Service had the annotation adopt: the official CCM doesn't support"
        in sentence
    )
    await site.ensure(view(annotations={"delete-protection": "true"}))
    assert await site.balancers.differences(without, "official") == []


async def test_others_are_named_after_the_annotation_share_is_gone(site: BalancerSite) -> None:
    other = view("other", 81, uid="99999999-2222-3333-4444-555555555555", annotations={"share": "edge"})
    await site.ensure(view("web", 80, annotations={"share": "edge"}))
    await site.ensure(other)
    alone = view("web", 80)
    await site.ensure(alone)
    [sentence] = await site.balancers.differences(alone, "official")
    assert "has ports of other Services (81). The official CCM removes these ports" in sentence
    await site.ensure(view("other", 81, uid=other.uid))
    assert await site.balancers.differences(alone, "official") == []


async def test_only_a_protection_that_is_there_keeps_an_adopted_one(site: BalancerSite) -> None:
    await site.make("theirs")
    await site.ensure(view(annotations={"adopt": "theirs"}))
    requested = view(annotations={"adopt": "theirs", "delete-protection": "true"})
    sentences = await site.balancers.differences(requested, "official")
    assert any("deletes the load balancer when" in one for one in sentences)
    await site.ensure(requested)
    sentences = await site.balancers.differences(requested, "official")
    assert not any("deletes the load balancer when" in one for one in sentences)


async def test_the_official_one_takes_only_ids_of_primary_ips(site: BalancerSite) -> None:
    body = {"name": "shop", "type": "ipv4", "location": "hel1"}
    ip = (await site.sky.call("POST", "/primary_ips", body))["primary_ip"]
    service = view(annotations={"public-net-ipv4": "shop"})
    plain = environment.read(PLAIN).load_balancers
    assert len(compare_with_hccm(service, plain, network=True)) == 2
    placed = view(annotations={"public-net-ipv4": str(ip["id"]), "location": "hel1"})
    assert compare_with_hccm(placed, plain, network=True) == ()
    await site.ensure(service)
    [said] = await site.balancers.differences(service, "official")
    assert said.endswith(f"Change the value to {ip['id']}")

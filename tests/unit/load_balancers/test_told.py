"""What has no effect is told, in one Event each, and never stands in the way."""

from __future__ import annotations

from typing import Any

import pytest
from balancer_site import BalancerSite, view

from ccm.cloud import CloudError, LoadBalancerResult, Rejected


def told(result: LoadBalancerResult) -> dict[str, str]:
    reasons = [notice.reason for notice in result.notices]
    assert len(reasons) == len(set(reasons)), reasons
    return {notice.reason: notice.message for notice in result.notices}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"source_ranges": ("10.0.0.0/8",)}, "loadBalancerSourceRanges (10.0.0.0/8)"),
        ({"load_balancer_ip": "203.0.113.9"}, "loadBalancerIP (203.0.113.9)"),
        ({"session_affinity": "ClientIP"}, "sessionAffinity (ClientIP)"),
    ],
)
async def test_fields_that_hetzner_lacks(site: BalancerSite, fields: dict[str, Any], text: str) -> None:
    assert told(await site.ensure(view("web", 80, **fields)))["UnsupportedFieldConfigured"].endswith(text)


async def test_a_service_of_ipv6_alone_gets_none(site: BalancerSite) -> None:
    result = await site.ensure(view("web", 80, ip_families=("IPv6",)))
    assert (result.ingress, await site.all()) == ((), [])
    assert "no load balancer is made" in told(result)["IPFamilyUnsupported"]
    await site.ensure(view("web", 80))
    before = await site.one()
    assert "IPFamilyUnsupported" in told(await site.ensure(view("web", 80, ip_families=("IPv6",))))
    assert await site.one() == before, "one that is there stays"


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("by_environment", [True, False])
async def test_none_is_made_that_would_have_no_address(
    site: BalancerSite, *, network: bool, by_environment: bool
) -> None:
    keys = {"disable-public-network": "true", "disable-private-ingress": "true"}
    variables = {"HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS": "true"} if by_environment else {}
    await site.restart(network=network, **variables)
    annotations = {key: keys[key] for key in [*keys][: 1 if by_environment or not network else 2]}
    with pytest.raises(Rejected) as error:
        await site.ensure(view(annotations=annotations))
    assert [notice.reason for notice in error.value.notices] == ["LoadBalancerWithoutAddress"]
    assert await site.all() == []
    named = await site.ensure(view(annotations={**annotations, "hostname": "shop.example.com"}))
    assert [entry.hostname for entry in named.ingress] == ["shop.example.com"]
    result = await site.ensure(view(annotations=annotations))
    assert (result.ingress, len(await site.all())) == ((), 1), "one that is there stays"
    assert "disable-public-network" in told(result)["LoadBalancerWithoutAddress"]


async def test_fields_as_they_usually_are(site: BalancerSite) -> None:
    service = view(
        "web", 80, session_affinity="None", ip_families=("IPv4", "IPv6"), annotations={"type": "lb11"}
    )
    assert told(await site.ensure(service)) == {}


async def test_source_ranges_by_annotation(site: BalancerSite) -> None:
    from dataclasses import replace

    old = "service.beta.kubernetes.io/load-balancer-source-ranges"
    service = replace(view(), annotations={old: "10.0.0.0/8"})
    assert f"{old} (10.0.0.0/8)" in told(await site.ensure(service))["UnsupportedFieldConfigured"]


async def test_a_port_without_a_node_port(site: BalancerSite) -> None:
    result = await site.ensure(view("web", (80, 0), (81, 30081)))
    assert "can't be reached: 80;" in told(result)["NodePortMissing"]
    assert [one["listen_port"] for one in (await site.one())["services"]] == [81]


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"location": "nbg1"}, "location: 'nbg1', it is in fsn1"),
        ({"network-zone": "us-east"}, "network-zone: 'us-east', it is in eu-central"),
        (
            {"private-subnet-ip-range": "10.0.1.0/24"},
            "private-subnet-ip-range: '10.0.1.0/24', its address is 10.0.0.",
        ),
    ],
)
async def test_a_load_balancer_does_not_move(
    site: BalancerSite, annotations: dict[str, str], text: str
) -> None:
    await site.ensure(view())
    before = await site.one()
    if "network-zone" in annotations:
        await site.restart(HCLOUD_LOAD_BALANCERS_LOCATION="")
    result = await site.ensure(view(annotations=annotations))
    assert text in told(result)["LoadBalancerNotMoved"]
    assert (await site.one()) == before
    same = {"location": "fsn1", "private-subnet-ip-range": "10.0.0.0/24"}
    assert "LoadBalancerNotMoved" not in told(await site.ensure(view(annotations=same)))


async def test_what_others_use_in_another_network_stays_there(site: BalancerSite) -> None:
    other = await site.sky.network("other")
    await site.make("theirs", network=other)
    service = view(annotations={"adopt": "theirs", "preserve-foreign": "true"})
    result = await site.ensure(service)
    assert f"it is in network {other} and stays there" in told(result)["LoadBalancerNotMoved"]
    assert [net["network"] for net in (await site.one())["private_net"]] == [other]


async def test_one_that_is_ours_alone_changes_its_network(site: BalancerSite) -> None:
    other = await site.sky.network("other")
    await site.make("theirs", network=other)
    await site.ensure(view(annotations={"adopt": "theirs"}))
    assert [net["network"] for net in (await site.one())["private_net"]] == [site.network]


async def test_wrong_values_and_wrong_names_are_one_event(site: BalancerSite) -> None:
    await site.ensure(view())
    with pytest.raises(CloudError) as caught:
        await site.ensure(view(annotations={"algorithm-type": "random", "typ": "lb11"}))
    [notice] = caught.value.notices
    assert notice.reason == "InvalidLoadBalancerAnnotation"
    assert "'random' is not" in notice.message
    assert "typ: there is no such annotation" in notice.message


async def test_a_node_selector_on_a_shared_one(site: BalancerSite) -> None:
    result = await site.ensure(view(annotations={"share": "edge", "node-selector": "a=b"}))
    assert "node-selector: has no effect" in told(result)["InvalidLoadBalancerAnnotation"]


async def test_a_service_without_a_type_hears_nothing_and_a_deprecated_one_is_named(
    site: BalancerSite,
) -> None:
    assert told(await site.ensure(view())) == {}

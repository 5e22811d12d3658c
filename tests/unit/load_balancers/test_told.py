"""What has no effect is told, in one Event each, and never stands in the way."""

from __future__ import annotations

import pytest
from balancer_site import BalancerSite, view

from ccm.cloud import LoadBalancerResult, Rejected


def told(result: LoadBalancerResult) -> dict[str, str]:
    reasons = [notice.reason for notice in result.notices]
    assert len(reasons) == len(set(reasons)), reasons
    return {notice.reason: notice.message for notice in result.notices}


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
async def test_none_is_made_without_an_address(
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


async def test_one_that_is_ours_alone_changes_its_network(site: BalancerSite) -> None:
    other = await site.sky.network("other")
    await site.make("theirs", network=other)
    await site.ensure(view(annotations={"adopt": "theirs"}))
    assert [net["network"] for net in (await site.one())["private_net"]] == [site.network]

"""The load balancer's own address in the private network: a wrong one does not take it out of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from balancer_site import UID, BalancerSite, targets, view

from ccm.cloud import CloudError, ServiceView

PRIVATE = {"use-private-ip": "true", "disable-public-network": "true"}
OTHER = "99999999-8888-7777-6666-555555555555"


def asking(**annotations: str) -> ServiceView:
    named = {key.replace("_", "-"): value for key, value in annotations.items()}
    return view(annotations={**PRIVATE, **named})


async def there(site: BalancerSite, **annotations: str) -> str:
    """One that answers in the private network alone; its address."""
    await site.add_nodes("a")
    await site.ensure(asking(**annotations))
    return address(await site.one())


def address(balancer: Mapping[str, Any]) -> str:
    [net] = balancer["private_net"]
    return net["ip"]


async def refused(site: BalancerSite, service: ServiceView) -> str:
    with pytest.raises(CloudError) as caught:
        await site.ensure(service)
    return caught.value.message


class TestOneThatIsRefused:
    async def test_it_gets_its_own_back(self, site: BalancerSite) -> None:
        before = await there(site)
        await site.sky.fault(path="*/attach_to_network", code="ip_not_available", times=1)
        assert "attach to network" in await refused(site, asking(private_ipv4="10.0.0.9"))
        assert address(await site.one()) == before
        await site.ensure(asking(private_ipv4="10.0.0.9"))
        balancer = await site.one()
        assert (address(balancer), len(targets(balancer))) == ("10.0.0.9", 1)
        assert (await site.ensure(asking(private_ipv4="10.0.0.9"))).steps == ()

    async def test_it_gets_its_own_back_in_the_network_where_it_was(self, site: BalancerSite) -> None:
        before = await there(site)
        await site.sky.network("other")
        await site.restart(HCLOUD_NETWORK="other")
        await site.sky.fault(path="*/attach_to_network", code="no_subnet_available", times=1)
        await refused(site, asking())
        balancer = await site.one()
        assert balancer["private_net"] == [{"network": site.network, "ip": before}]

    async def test_it_stays_where_it_is_while_it_can_not_leave(self, site: BalancerSite) -> None:
        before = await there(site)
        await site.sky.fault(path="*/detach_from_network", code="service_error", times=1)
        assert "detach from network" in await refused(site, asking(private_ipv4="10.0.0.9"))
        assert address(await site.one()) == before


async def test_the_network_is_only_asked_for_when_the_address_changes(site: BalancerSite) -> None:
    await there(site, private_ipv4="10.0.0.9")
    for asked in (asking(private_ipv4="10.0.0.9"), asking()):
        await site.sky.forget_requests()
        await site.ensure(asked)
        assert not [name for name in await site.sky.counts() if "/networks" in name]
    assert UID in (await site.one())["labels"].values()

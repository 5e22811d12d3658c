from collections.abc import Mapping
from typing import Any

import pytest
from balancer_site import UID, BalancerSite, targets, view

from ccm.cloud import CloudError, LoadBalancerResult, Rejected, ServiceView

PRIVATE = {"use-private-ip": "true", "disable-public-network": "true"}


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


async def test_one_whose_new_address_is_refused_gets_its_own_back(site: BalancerSite) -> None:
    before, moved = await there(site), asking(private_ipv4="10.0.0.9")
    await site.sky.fault(path="*/attach_to_network", code="ip_not_available", times=1)
    with pytest.raises(CloudError, match="attach to network"):
        await site.ensure(moved)
    assert address(await site.one()) == before
    await site.ensure(moved)
    balancer = await site.one()
    assert (address(balancer), len(targets(balancer))) == ("10.0.0.9", 1)
    assert (await site.ensure(moved)).steps == ()


async def test_the_network_is_only_asked_for_when_the_address_changes(site: BalancerSite) -> None:
    await there(site, private_ipv4="10.0.0.9")
    for asked in (asking(private_ipv4="10.0.0.9"), asking()):
        await site.sky.forget_requests()
        await site.ensure(asked)
        assert not [name for name in await site.sky.counts() if "/networks" in name]
    assert UID in (await site.one())["labels"].values()


async def reserve(site: BalancerSite, name: str, family: str = "ipv4", **more: Any) -> dict[str, Any]:
    body = {"name": name, "type": family, "location": "hel1", **more}
    return (await site.sky.call("POST", "/primary_ips", body))["primary_ip"]


def on(**references: str) -> ServiceView:
    return view(annotations={f"public-net-{family}": reference for family, reference in references.items()})


async def test_it_is_made_on_them_and_leaves_them(site: BalancerSite) -> None:
    four, six = await reserve(site, "shop-v4"), await reserve(site, "shop-v6", "ipv6")
    service = on(ipv4=str(four["id"]), ipv6="shop-v6")
    [plan] = await site.balancers.plan(service, [])
    assert four["ip"] in plan
    assert six["ip"] in plan
    result = await site.ensure(service)
    made = await site.one()
    assert [made["public_net"][family]["id"] for family in ("ipv4", "ipv6")] == [four["id"], six["id"]]
    assert made["location"]["name"] == "hel1", "not where the environment says"
    assert result.ingress[0].ip == four["ip"]
    assert not await site.balancers.plan(service, [])

    await site.restart()
    await site.ensure(service)
    assert await site.writes() == 0
    await site.balancers.delete(service)
    await site.ensure(service)
    assert (await site.one())["public_net"]["ipv4"]["ip"] == four["ip"]


async def test_an_existing_one_is_neither_replaced_nor_changed(site: BalancerSite) -> None:
    await site.ensure(view())
    before = (await site.one())["public_net"]
    ip = await reserve(site, "shop", location="fsn1")
    service = on(ipv4="shop")
    result = await site.ensure(service)
    assert "PrimaryIPNotAssigned" in [notice.reason for notice in result.notices]
    [note] = await site.balancers.plan(service, [])
    assert note.startswith("note: ")
    assert before["ipv4"]["ip"] in note
    assert (await site.one())["public_net"] == before
    made = await site.one()
    await site.sky.call("DELETE", f"/load_balancers/{made['id']}")
    await site.restart()
    await site.ensure(service)
    assert (await site.one())["public_net"]["ipv4"]["ip"] == ip["ip"], "the owner asked for it by that"


def events(result: LoadBalancerResult) -> dict[str, str]:
    reasons = [notice.reason for notice in result.notices]
    assert len(reasons) == len(set(reasons)), reasons
    return {notice.reason: notice.message for notice in result.notices}


async def test_a_service_of_ipv6_alone_gets_none(site: BalancerSite) -> None:
    result = await site.ensure(view("web", 80, ip_families=("IPv6",)))
    assert (result.ingress, await site.all()) == ((), [])
    assert "the CCM creates no load balancer" in events(result)["IPFamilyUnsupported"]
    await site.ensure(view("web", 80))
    before = await site.one()
    assert "IPFamilyUnsupported" in events(await site.ensure(view("web", 80, ip_families=("IPv6",))))
    assert await site.one() == before, "one that is there stays"


async def test_none_is_made_without_an_address(site: BalancerSite) -> None:
    await site.restart(HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS="true")
    annotations = {"disable-public-network": "true"}
    with pytest.raises(Rejected) as error:
        await site.ensure(view(annotations=annotations))
    assert [notice.reason for notice in error.value.notices] == ["LoadBalancerWithoutAddress"]
    assert await site.all() == []
    named = await site.ensure(view(annotations={**annotations, "hostname": "shop.example.com"}))
    assert [entry.hostname for entry in named.ingress] == ["shop.example.com"]
    result = await site.ensure(view(annotations=annotations))
    assert (result.ingress, len(await site.all())) == ((), 1), "one that is there stays"
    assert "disable-public-network" in events(result)["LoadBalancerWithoutAddress"]

"""Load balancers on Primary IPs, against the emulated cloud."""

from __future__ import annotations

from typing import Any

from balancer_site import BalancerSite, view

from ccm.cloud import ServiceView


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

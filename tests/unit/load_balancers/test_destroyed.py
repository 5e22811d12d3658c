import asyncio

import pytest
from balancer_site import LABEL, UID, BalancerSite, view

from ccm_pulumi.addons.load_balancer_cleanup import clean_up_certificates, clean_up_load_balancers
from ccm_pulumi.lib.cloud_api import Cloud, Patience
from ccm_pulumi.lib.errors import InfraError
from ccm_pulumi.lib.ownership import Ownership

TCP = {"protocol": "tcp", "destination_port": 2525}


async def destroy(site: BalancerSite) -> list[str]:
    messages: list[str] = []
    cloud = Cloud(site.sky.environment["HCLOUD_ENDPOINT"].rstrip("/"), site.sky.environment["HCLOUD_TOKEN"])
    whose = Ownership("c1", site.network, frozenset())

    def sweep() -> None:
        found = clean_up_load_balancers(cloud, whose, messages.append, Patience(pause=0))
        clean_up_certificates(cloud, whose, found, messages.append)

    await asyncio.to_thread(sweep)
    return messages


async def certificates(site: BalancerSite) -> list[str]:
    return [one["name"] for one in (await site.sky.call("GET", "/certificates"))["certificates"]]


async def test_certificates_go_with_what_they_were_requested_for(site: BalancerSite) -> None:
    theirs = {"type": "managed", "domain_names": ["other.example"]}
    await site.sky.call("POST", "/certificates", {**theirs, "name": "theirs"})
    await site.sky.call("POST", "/certificates", {**theirs, "name": "official", "labels": {LABEL: UID}})
    managed = {"certificate-type": "managed", "http-managed-certificate-domains": "a.example"}
    await site.ensure(view("web", 443, annotations={"protocol": "https", **managed}))
    assert len(await certificates(site)) == 3
    assert len(await destroy(site)) == 2
    assert sorted(await certificates(site)) == ["official", "theirs"]


async def test_what_the_ccm_made_is_deleted_and_nothing_else(site: BalancerSite) -> None:
    await site.ensure(view("web"))
    await site.ensure(view("one", 80, uid="u1", annotations={"share": "edge"}))
    await site.ensure(view("two", 443, uid="u2", annotations={"share": "edge"}))
    theirs = await site.make("theirs", network=site.network)
    assert len(await destroy(site)) == 2
    assert await site.one() == {**theirs, "private_net": (await site.one())["private_net"]}


async def test_an_adopted_one_is_released(site: BalancerSite) -> None:
    theirs = await site.make("theirs", labels={"team": "shop"})
    await site.ensure(view(annotations={"adopt": str(theirs["id"])}))
    assert (await site.one())["labels"].keys() >= {LABEL, "ccm-from-scratch/cluster"}
    [messages] = await destroy(site)
    assert "kept the load balancer " in messages
    assert (await site.one())["labels"] == {"team": "shop"}


async def test_one_with_a_foreign_listener_is_released(site: BalancerSite) -> None:
    await site.ensure(view(annotations={"preserve-foreign": "true"}))
    made = await site.one()
    await site.act(made["id"], "add_service", listen_port=25, **TCP)
    await destroy(site)
    left = await site.one()
    assert left["labels"] == {}
    assert sorted(one["listen_port"] for one in left["services"]) == [25, 80]


async def test_one_that_was_protected_when_its_service_went_is_named_too(site: BalancerSite) -> None:
    await site.ensure(view(annotations={"delete-protection": "true"}))
    await site.balancers.delete(view())
    made = await site.one()
    with pytest.raises(InfraError, match=f"hcloud load-balancer disable-protection {made['id']} delete"):
        await destroy(site)
    await site.act(made["id"], "change_protection", delete=False)
    await destroy(site)
    assert await site.all() == []

"""What is left of Services that are gone."""

from __future__ import annotations

from balancer_site import LABEL, UID, BalancerSite, view

OTHER = "99999999-8888-7777-6666-555555555555"


async def test_ours_are_found_and_left_alone(site: BalancerSite) -> None:
    await site.ensure(view())
    made = await site.one()
    assert await site.balancers.orphans({UID}) == []
    [orphan] = await site.balancers.orphans(set())
    assert (orphan.namespace, orphan.name, orphan.uid) == ("shop", "web", UID)
    assert orphan.what == f"load balancer {made['name']} ({made['id']})"
    assert await site.one() == made


async def test_without_a_cluster_id_no_deletion_is_suggested(site: BalancerSite) -> None:
    await site.restart(CCM_CLUSTER_ID="")
    await site.ensure(view())
    made = await site.one()
    [orphan] = await site.balancers.orphans(set())
    assert orphan.what == (
        f"load balancer {made['name']} ({made['id']}), which may be another cluster's, "
        "because CCM_CLUSTER_ID is not set,"
    )


async def test_ports_on_a_shared_one(site: BalancerSite) -> None:
    await site.ensure(view("first", 80, annotations={"share": "edge"}))
    await site.ensure(view("second", 443, uid=OTHER, annotations={"share": "edge"}))
    [orphan] = await site.balancers.orphans({UID})
    assert orphan.uid == OTHER
    assert orphan.what.startswith("port 443 of load balancer")


async def test_the_next_owner_is_named(site: BalancerSite) -> None:
    await site.ensure(view("first", 80, annotations={"share": "edge"}))
    second = view("second", 443, uid=OTHER, annotations={"share": "edge"})
    await site.ensure(second)
    await site.balancers.delete(view("first", 80))
    [orphan] = await site.balancers.orphans(set())
    assert (orphan.name, orphan.uid) == ("", OTHER)  # not known before its next look
    await site.ensure(second)
    [orphan] = await site.balancers.orphans(set())
    assert (orphan.namespace, orphan.name, orphan.uid) == ("shop", "second", OTHER)


async def test_other_peoples_are_not_looked_at(site: BalancerSite) -> None:
    await site.make("theirs")
    await site.make("official", labels={LABEL: OTHER})
    names = {"ccm-from-scratch/namespace": "shop", "ccm-from-scratch/cluster": "c2"}
    await site.make("other-cluster", labels={LABEL: OTHER, **names})
    assert await site.balancers.orphans(set()) == []


async def test_looking_costs_one_list_at_most(site: BalancerSite) -> None:
    await site.balancers.orphans(set())
    await site.ensure(view())
    assert (await site.sky.counts())["GET /load_balancers"] == 1

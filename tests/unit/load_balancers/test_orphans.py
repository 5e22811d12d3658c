from balancer_site import BalancerSite, view

OTHER = "99999999-8888-7777-6666-555555555555"


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


async def test_looking_costs_one_list_at_most(site: BalancerSite) -> None:
    await site.balancers.orphans(set())
    await site.ensure(view())
    assert (await site.sky.counts())["GET /load_balancers"] == 1

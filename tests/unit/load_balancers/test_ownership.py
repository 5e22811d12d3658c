import pytest
from balancer_site import LABEL, UID, BalancerSite, number, targets, view

from ccm.cloud import CloudError

OTHER = "99999999-8888-7777-6666-555555555555"
SERVICE_25 = {"protocol": "tcp", "listen_port": 25, "destination_port": 2525}


async def test_adoption(site: BalancerSite) -> None:
    theirs = await site.make("theirs", services=[SERVICE_25], labels={"team": "a"})
    service = view(annotations={"adopt": "theirs"})
    await site.ensure(service)
    balancer = await site.one()
    assert (balancer["id"], balancer["name"]) == (theirs["id"], "theirs")
    assert balancer["labels"].items() >= {"team": "a", LABEL: UID}.items()
    assert [one["listen_port"] for one in balancer["services"]] == [80]
    assert (await site.ensure(service)).steps == ()


class TestPreserveForeign:
    async def test_listeners_and_targets_of_others_stay(self, site: BalancerSite) -> None:
        foreign = (await site.add_nodes("foreign"))[0]
        site.nodes.clear()
        ours = (await site.add_nodes("ours"))[0]
        await site.make(
            "theirs", services=[SERVICE_25], targets=[{"type": "server", "server": {"id": number(foreign)}}]
        )
        service = view("web", 80, annotations={"adopt": "theirs", "preserve-foreign": "true"})
        await site.ensure(service)
        balancer = await site.one()
        assert [one["listen_port"] for one in balancer["services"]] == [25, 80]
        assert targets(balancer).keys() == {number(foreign), number(ours)}
        await site.restart()
        assert (await site.ensure(service)).steps == ()
        await site.balancers.delete(service)
        balancer = await site.one()
        assert [one["listen_port"] for one in balancer["services"]] == [25]
        assert number(foreign) in targets(balancer)

    @pytest.mark.parametrize("restarted", [False, True])
    async def test_a_node_that_leaves_is_ours_and_goes(self, site: BalancerSite, *, restarted: bool) -> None:
        """As one that is drained, or excluded by its label; its server goes on living."""
        await site.add_nodes("stays", "leaves")
        service = view("web", 80, annotations={"preserve-foreign": "true"})
        await site.ensure(service)
        if restarted:
            await site.restart()
            await site.ensure(service)
        site.nodes.pop()
        await site.ensure(service)
        assert targets(await site.one()).keys() == {number(site.nodes[0])}

    @pytest.mark.parametrize("step", ["/actions/delete_service", "/actions/remove_target", ""])
    async def test_a_failed_cleanup_is_repeated(self, site: BalancerSite, step: str) -> None:
        """The labels are removed last, because a retry finds the remaining work by the labels."""
        await site.make("theirs", services=[SERVICE_25])
        await site.add_nodes("a")
        service = view("web", 80, annotations={"adopt": "theirs"})
        await site.ensure(service)
        await site.sky.fault(
            path=f"/load_balancers/*{step}", method="POST" if step else "PUT", code="server_error"
        )
        with pytest.raises(CloudError):
            await site.balancers.delete(service)
        await site.sky.heal()
        assert (await site.balancers.delete(service)).steps
        balancer = await site.one()
        assert (balancer["labels"], balancer["services"], balancer["targets"]) == ({}, [], [])


async def test_a_port_that_could_not_be_given_up_is_still_known_for_ours(site: BalancerSite) -> None:
    shared = {"share": "edge"}
    await site.ensure(view("first", 80, 81, annotations=shared))
    await site.ensure(view("second", 443, uid=OTHER, annotations=shared))
    await site.sky.fault(path="/load_balancers/*/actions/delete_service", code="server_error")
    with pytest.raises(CloudError, match="stop listening on port 81"):
        await site.ensure(view("first", 80, annotations=shared))
    await site.sky.heal()
    await site.restart()
    await site.ensure(view("first", 80, annotations=shared))
    balancer = await site.one()
    assert sorted(one["listen_port"] for one in balancer["services"]) == [80, 443]
    assert "ccm-from-scratch/port-81" not in balancer["labels"]
    assert (await site.ensure(view("first", 80, annotations=shared))).steps == ()


class TestShare:
    first = view("first", 80, annotations={"share": "edge"})
    second = view("second", 443, uid=OTHER, annotations={"share": "edge"})

    async def test_the_second_of_two_services_leads_once_the_first_goes(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        one = await site.ensure(self.first)
        two = await site.ensure(self.second)
        assert one.ingress == two.ingress
        balancer = await site.one()
        assert [each["listen_port"] for each in balancer["services"]] == [80, 443]
        for restarted in (False, True):
            if restarted:
                await site.restart()
            assert (await site.ensure(self.first)).steps == ()
            assert (await site.ensure(self.second)).steps == ()
        await site.balancers.delete(self.first)
        balancer = await site.one()
        assert [each["listen_port"] for each in balancer["services"]] == [443]
        assert balancer["labels"][LABEL] == OTHER
        await site.add_nodes("b")
        await site.ensure(self.second)
        assert len((await site.one())["targets"]) == 2
        await site.balancers.delete(self.second)
        assert await site.all() == []


class TestMoving:
    shared = view("second", 443, uid=OTHER, annotations={"share": "edge"})
    alone = view("second", 443, uid=OTHER)

    async def test_a_member_leaves(self, site: BalancerSite) -> None:
        await site.ensure(TestShare.first)
        await site.ensure(self.shared)
        planned = await site.balancers.plan(self.alone, [])
        assert [step.split()[0] for step in planned] == ["create", "leave"]
        await site.ensure(self.alone)
        ports = {
            one["labels"][LABEL]: [each["listen_port"] for each in one["services"]]
            for one in await site.all()
        }
        assert ports == {UID: [80], OTHER: [443]}
        assert (await site.ensure(self.alone)).steps == ()
        assert (await site.ensure(TestShare.first)).steps == ()

    async def test_a_service_with_its_own_joins_and_its_own_goes_last(self, site: BalancerSite) -> None:
        await site.ensure(TestShare.first)
        await site.ensure(self.alone)
        result = await site.ensure(self.shared)
        balancer = await site.one()
        assert [each["listen_port"] for each in balancer["services"]] == [80, 443]
        assert balancer["labels"][LABEL] == UID
        assert result.steps[-1].startswith("delete load balancer")
        await site.restart()
        assert (await site.ensure(self.shared)).steps == ()

    async def test_its_own_stays_while_joining_fails(self, site: BalancerSite) -> None:
        await site.ensure(TestShare.first)
        await site.ensure(self.alone)
        await site.sky.fault(method="POST", path="*/add_service", code="service_error", times=1)
        with pytest.raises(CloudError, match="service_error"):
            await site.ensure(self.shared)
        assert len(await site.all()) == 2

    async def test_an_adopted_one_is_left_not_deleted(self, site: BalancerSite) -> None:
        await site.ensure(TestShare.first)
        await site.make("theirs")
        site.balancers.inventory.balancers._taken_at -= 5  # type: ignore[operator]
        await site.ensure(view("second", 443, uid=OTHER, annotations={"adopt": "theirs"}))
        await site.ensure(self.shared)
        assert sorted(one["name"] for one in await site.all()) == sorted(
            ["a" + UID.replace("-", "")[:31], "theirs"]
        )

"""Whose load balancer it is: foreign ones, adopted ones, shared ones; against the emulated cloud."""

from __future__ import annotations

import pytest
from balancer_site import LABEL, UID, BalancerSite, number, targets, view

from ccm.cloud import CloudError

OTHER = "99999999-8888-7777-6666-555555555555"
NEW = "77777777-2222-3333-4444-555555555555"
SERVICE_80 = {"protocol": "tcp", "listen_port": 80, "destination_port": 8080}
SERVICE_25 = {"protocol": "tcp", "listen_port": 25, "destination_port": 2525}


async def test_a_name_that_is_taken_costs_only_the_name(site: BalancerSite) -> None:
    """Above all it must not cost the labels: they say whose the load balancer is."""
    await site.make("taken")
    await site.make("theirs")
    service = view("web", 80, annotations={"adopt": "theirs", "name": "taken"})
    with pytest.raises(CloudError, match=r"rename to taken: .*uniqueness_error"):
        await site.ensure(service)
    [adopted] = [one for one in await site.all() if one["name"] == "theirs"]
    assert adopted["labels"][LABEL] == UID
    assert [one["listen_port"] for one in adopted["services"]] == [80]
    assert (await site.balancers.delete(service)).steps
    assert all(one["services"] == [] and one["labels"] == {} for one in await site.all())


class TestForeign:
    async def test_the_official_ccms_is_taken_over_unchanged(self, site: BalancerSite) -> None:
        a = (await site.add_nodes("a"))[0]
        theirs = await site.make(
            "a" + UID.replace("-", "")[:31],
            labels={LABEL: UID},
            network=site.network,
            services=[{"protocol": "tcp", "listen_port": 80, "destination_port": 30080}],
            targets=[{"type": "server", "server": {"id": number(a)}}],
        )
        await site.sky.forget_requests()
        result = await site.ensure(view())
        assert result.steps == ()
        assert await site.writes() == 0
        assert result.ingress[0].ip == theirs["public_net"]["ipv4"]["ip"]


class TestAdoption:
    @pytest.mark.parametrize("by", ["id", "name"])
    async def test_by_annotation(self, site: BalancerSite, by: str) -> None:
        theirs = await site.make("theirs", services=[SERVICE_25], labels={"team": "a"})
        service = view(annotations={"adopt": str(theirs[by])})
        await site.ensure(service)
        balancer = await site.one()
        assert balancer["id"] == theirs["id"]
        assert balancer["name"] == "theirs"
        assert balancer["labels"]["team"] == "a"
        assert balancer["labels"][LABEL] == UID
        assert [one["listen_port"] for one in balancer["services"]] == [80]
        assert (await site.ensure(service)).steps == ()

    async def test_what_was_adopted_is_released_and_not_deleted(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        theirs = await site.make("theirs", labels={"team": "a"})
        service = view(annotations={"adopt": "theirs"})
        await site.ensure(service)
        result = await site.balancers.delete(service)
        balancer = await site.one()
        assert balancer["id"] == theirs["id"]
        assert balancer["labels"] == {"team": "a"}
        assert (balancer["services"], balancer["targets"]) == ([], [])
        assert [notice.reason for notice in result.notices] == ["LoadBalancerReleased"]


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

    async def test_without_the_annotation_it_is_the_services_alone_again(self, site: BalancerSite) -> None:
        await site.make("theirs", services=[SERVICE_25])
        await site.ensure(view("web", 80, annotations={"adopt": "theirs", "preserve-foreign": "true"}))
        await site.restart()
        alone = view("web", 80, annotations={"adopt": "theirs"})
        await site.ensure(alone)
        balancer = await site.one()
        assert [one["listen_port"] for one in balancer["services"]] == [80]
        assert not any("port-" in key for key in balancer["labels"])
        assert (await site.ensure(alone)).steps == ()

    async def test_one_that_we_made_stays_for_those_who_use_it(self, site: BalancerSite) -> None:
        service = view("web", 80, annotations={"preserve-foreign": "true"})
        await site.ensure(service)
        await site.act((await site.one())["id"], "add_service", **SERVICE_25, proxyprotocol=False)
        result = await site.balancers.delete(service)
        balancer = await site.one()
        assert [one["listen_port"] for one in balancer["services"]] == [25]
        assert balancer["labels"] == {}
        [notice] = result.notices
        assert notice.message.endswith("stays, because others use it")

    @pytest.mark.parametrize("step", ["/actions/delete_service", "/actions/remove_target", ""])
    async def test_a_failed_cleanup_is_repeated(self, site: BalancerSite, step: str) -> None:
        """Its labels go last: without them nobody would know what is left to do."""
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

    async def test_where_all_ports_are_taken_none_is_ever_ours(self, site: BalancerSite) -> None:
        await site.make("theirs", services=[SERVICE_80])
        service = view("web", 80, annotations={"adopt": "theirs", "preserve-foreign": "true"})
        theirs = (await site.one())["services"]
        for _ in range(3):
            [notice] = [
                one
                for one in (await site.ensure(service)).notices
                if one.reason == "LoadBalancerPortConflict"
            ]
            assert "port 80 belongs to someone else" in notice.message
            assert (await site.one())["services"] == theirs
            await site.restart()
        await site.balancers.delete(service)
        assert ((await site.one())["services"], (await site.one())["labels"]) == (theirs, {})


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


class TestSuccessor:
    """A Service that was made anew without its predecessor being cleaned up after, as from a backup."""

    async def test_it_leads_where_its_predecessor_led(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        shared = {"share": "edge"}
        await site.ensure(view("first", 80, 81, annotations=shared))
        await site.ensure(view("second", 443, uid=OTHER, annotations=shared))
        await site.add_nodes("b")
        again = view("first", 80, 82, uid=NEW, annotations=shared)
        result = await site.ensure(again)
        assert "LoadBalancerPortConflict" not in [notice.reason for notice in result.notices]
        balancer = await site.one()
        assert balancer["labels"][LABEL] == NEW
        assert sorted(one["listen_port"] for one in balancer["services"]) == [80, 82, 443]
        assert targets(balancer).keys() == {number(node) for node in site.nodes}
        assert UID not in balancer["labels"].values()
        assert (await site.ensure(again)).steps == ()
        await site.balancers.delete(view("second", uid=OTHER))
        await site.balancers.delete(again)
        assert await site.all() == []

    async def test_not_of_another_cluster_that_may_have_one_of_that_name(self, site: BalancerSite) -> None:
        await site.restart(CCM_CLUSTER_ID="")
        await site.ensure(view("first", 80, annotations={"share": "edge"}))
        await site.ensure(view("first", 80, uid=NEW, annotations={"share": "edge"}))
        assert (await site.one())["labels"][LABEL] == UID


class TestShare:
    first = view("first", 80, annotations={"share": "edge"})
    second = view("second", 443, uid=OTHER, annotations={"share": "edge"})

    async def test_two_services_on_one(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        one = await site.ensure(self.first)
        two = await site.ensure(self.second)
        assert one.ingress == two.ingress
        balancer = await site.one()
        assert [each["listen_port"] for each in balancer["services"]] == [80, 443]
        assert (await site.ensure(self.first)).steps == ()
        assert (await site.ensure(self.second)).steps == ()
        await site.restart()
        assert (await site.ensure(self.second)).steps == ()
        assert (await site.ensure(self.first)).steps == ()

    async def test_the_first_goes_and_the_second_leads(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        await site.ensure(self.first)
        await site.ensure(self.second)
        await site.balancers.delete(self.first)
        balancer = await site.one()
        assert [each["listen_port"] for each in balancer["services"]] == [443]
        assert balancer["labels"][LABEL] == OTHER
        await site.add_nodes("b")
        await site.ensure(self.second)
        assert len((await site.one())["targets"]) == 2
        await site.balancers.delete(self.second)
        assert await site.all() == []

    @pytest.mark.parametrize("looked", [True, False], ids=["after its next look", "before it"])
    async def test_the_first_is_recreated_while_the_second_leads(
        self, site: BalancerSite, *, looked: bool
    ) -> None:
        await site.add_nodes("a")
        await site.ensure(self.first)
        await site.ensure(self.second)
        await site.balancers.delete(self.first)
        if looked:
            await site.ensure(self.second)
        anew = view("first", 80, uid=NEW, annotations={"share": "edge"})
        await site.ensure(anew)
        balancer = await site.one()
        assert {each["listen_port"] for each in balancer["services"]} == {80, 443}
        assert balancer["labels"][LABEL] == OTHER
        await site.ensure(self.second)
        assert (await site.ensure(anew)).steps == ()
        await site.balancers.delete(anew)
        assert [each["listen_port"] for each in (await site.one())["services"]] == [443]

    async def test_a_member_changes_only_its_own(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        await site.ensure(self.first)
        annotations = {"share": "edge", "type": "lb31", "name": "mine", "algorithm-type": "least_connections"}
        await site.ensure(view("second", 443, 8443, uid=OTHER, annotations=annotations))
        await site.ensure(view("second", 8443, uid=OTHER, annotations=annotations))
        balancer = await site.one()
        assert balancer["load_balancer_type"]["name"] == "lb11"
        assert balancer["name"] != "mine"
        assert [each["listen_port"] for each in balancer["services"]] == [80, 8443]


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

from dataclasses import replace

import pytest
from balancer_site import LABEL, UID, BalancerSite, number, targets, view

from ccm.cloud import Address, CloudError, CloudUnavailable, Ingress, NodeView, ServicePort
from ccm.hetzner.api import Listing, Priority, UndecodableItem
from ccm.hetzner.api.models import LoadBalancer

ROBOT = {"ROBOT_ENABLED": "true", "HCLOUD_NETWORK_ROUTES_ENABLED": "false"}


class TestCreate:
    async def test_a_plain_one(self, site: BalancerSite) -> None:
        a, b = await site.add_nodes("a", "b")
        result = await site.ensure(view("web", (80, 30080), (443, 30443)))
        balancer = await site.one()
        assert balancer["name"] == "a" + UID.replace("-", "")[:31]
        assert balancer["labels"] == {
            LABEL: UID,
            "ccm-from-scratch/cluster": "c1",
            "ccm-from-scratch/namespace": "shop",
            "ccm-from-scratch/service": "web",
        }
        assert [(one["listen_port"], one["destination_port"]) for one in balancer["services"]] == [
            (80, 30080),
            (443, 30443),
        ]
        assert targets(balancer) == {number(a): False, number(b): False}
        assert balancer["load_balancer_type"]["name"] == "lb11"
        addresses = [
            balancer["public_net"]["ipv4"]["ip"],
            balancer["public_net"]["ipv6"]["ip"],
            balancer["private_net"][0]["ip"],
        ]
        assert result.ingress == tuple(Ingress(ip=ip, ip_mode="VIP") for ip in addresses)
        assert len(result.steps) == 1

    async def test_a_large_one_takes_six_requests(self, site: BalancerSite) -> None:
        await site.add_nodes(*(f"n{index}" for index in range(10)))
        await site.ensure(view("web", 80, 443, annotations={"use-private-ip": "true"}))
        assert await site.requests() <= 6
        assert list(targets(await site.one()).values()) == [True] * 10

    async def test_a_restart_costs_one_list_and_a_look_nothing(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        first = await site.ensure(view())
        await site.sky.forget_requests()
        second = await site.ensure(view())
        assert (await site.requests(), second.ingress, second.steps) == (0, first.ingress, ())
        await site.restart()
        assert (await site.ensure(view())).steps == ()
        assert await site.sky.counts() == {"GET /load_balancers": 1}

    async def test_the_plan_is_what_happens(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        service = view("web", 80, annotations={"name": "shop"})
        planned = await site.balancers.plan(service, site.nodes)
        assert await site.all() == []
        assert planned == list((await site.ensure(service)).steps)
        assert await site.balancers.plan(service, site.nodes) == []

    async def test_status_by_annotation(self, site: BalancerSite) -> None:
        hostname = await site.ensure(view(annotations={"hostname": "shop.example.com"}))
        assert hostname.ingress == (Ingress(hostname="shop.example.com"),)
        short = await site.ensure(
            view(annotations={"ipv6-disabled": "true", "disable-private-ingress": "true"})
        )
        assert [entry.ip for entry in short.ingress] == [(await site.one())["public_net"]["ipv4"]["ip"]]
        proxied = await site.ensure(view(annotations={"uses-proxyprotocol": "true"}))
        assert {entry.ip_mode for entry in proxied.ingress} == {"Proxy"}


class TestChange:
    async def test_everything_changes_and_changes_back(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        await site.ensure(view())
        before = await site.one()
        loud = view(
            annotations={
                "name": "loud",
                "type": "lb21",
                "algorithm-type": "least_connections",
                "use-private-ip": "true",
                "disable-public-network": "true",
                "ipv4-rdns": "lb.example.com",
                "protocol": "http",
                "http-sticky-sessions": "true",
                "http-cookie-lifetime": "1h",
                "health-check-protocol": "http",
                "health-check-interval": "5s",
                "health-check-timeout": "3",
                "delete-protection": "true",
            }
        )
        await site.ensure(loud)
        changed = await site.one()
        assert changed["name"] == "loud"
        assert changed["public_net"]["enabled"] is False
        assert changed["public_net"]["ipv4"]["dns_ptr"] == "lb.example.com"
        assert changed["protection"] == {"delete": True}
        assert changed["services"][0]["http"]["cookie_lifetime"] == 3600
        assert (await site.ensure(loud)).steps == ()
        quiet = view(
            annotations={"type": "lb11", "disable-public-network": "false", "delete-protection": "false"}
        )
        await site.ensure(quiet)
        after = await site.one()
        for field in (
            "name",
            "public_net",
            "load_balancer_type",
            "algorithm",
            "services",
            "protection",
            "labels",
        ):
            assert after[field] == before[field], field
        assert targets(after) == targets(before)
        assert (await site.ensure(quiet)).steps == ()

    async def test_drift_is_repaired(self, site: BalancerSite) -> None:
        a, b = await site.add_nodes("a", "b")
        await site.ensure(view())
        found = (await site.one())["id"]
        await site.act(found, "remove_target", type="server", server={"id": number(a)})
        await site.act(found, "delete_service", listen_port=80)
        await site.restart()
        await site.ensure(view())
        balancer = await site.one()
        assert targets(balancer).keys() == {number(a), number(b)}
        assert len(balancer["services"]) == 1

    async def test_an_lb_that_was_deleted_by_hand_comes_back(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.sky.call("DELETE", f"/load_balancers/{(await site.one())['id']}")
        site.balancers.inventory.invalid.add(UID)
        await site.ensure(view())
        assert len(await site.all()) == 1


class TestTargets:
    async def test_one_more_node_is_one_request(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        await site.ensure(view())
        await site.add_nodes("b")
        await site.cloud.servers.read(0.0, 1)  # type: ignore[arg-type]
        await site.sky.forget_requests()
        await site.ensure(view())
        assert await site.sky.counts() == {"POST /load_balancers/{id}/actions/add_target": 1}

    async def test_a_refused_target_keeps_no_other_out(self, site: BalancerSite) -> None:
        nodes = await site.add_nodes("a", "b", "c")
        await site.cloud.servers.read(0.0, 1)  # type: ignore[arg-type]
        await site.sky.call("DELETE", f"/servers/{number(nodes[0])}")
        with pytest.raises(CloudError, match=f"add server {number(nodes[0])}: .*not_found") as caught:
            await site.ensure(view())
        balancer = await site.one()
        assert targets(balancer).keys() == {number(nodes[1]), number(nodes[2])}
        assert balancer["public_net"]["ipv4"]["ip"] in {entry.ip for entry in caught.value.ingress}

    async def test_robot_servers_by_their_public_addresses(self, site: BalancerSite) -> None:
        await site.sky.admin(
            "POST",
            "/robot/servers",
            {"number": 7, "name": "robot", "ip": "198.51.100.7", "product": "AX41", "dc": "FSN1-DC1"},
        )
        await site.restart(**ROBOT)
        (cloud,) = await site.add_nodes("cloud")
        robot = NodeView(
            "robot",
            "hrobot://7",
            addresses=(Address("ExternalIP", "2001:db8::7"), Address("ExternalIP", "198.51.100.7")),
        )
        old = NodeView("old", "hcloud://bm-7", addresses=(Address("ExternalIP", "198.51.100.7"),))
        await site.ensure(view(), [cloud, robot, old])
        balancer = await site.one()
        assert targets(balancer).keys() == {number(cloud)}
        assert [one["ip"]["ip"] for one in balancer["targets"] if one["type"] == "ip"] == ["198.51.100.7"]
        assert (await site.ensure(view(), [cloud, robot])).steps == ()
        await site.ensure(view(), [cloud])
        assert len((await site.one())["targets"]) == 1

    async def test_a_wrong_prefix_of_provider_ids_ends_no_traffic(self, site: BalancerSite) -> None:
        """As after a change of --cloud-provider in a running cluster."""
        good = await site.add_nodes("a", "b")
        await site.ensure(view())
        before, metric = targets(await site.one()), "ccm_hetzner_load_balancer_targets_kept"
        labels = {"namespace": "shop", "service": "web"}
        assert (site.registry.get_sample_value(metric, labels), site.cloud.healthy()) == (0, None)
        wrong = [replace(node, provider_id=f"hcloud://{number(node)}") for node in good]
        result = await site.ensure(view(), wrong)
        assert (targets(await site.one()), result.steps) == (before, ())
        assert "LoadBalancerTargetsKept" in {notice.reason for notice in result.notices}
        assert site.registry.get_sample_value(metric, labels) == 1
        assert "The CCM keeps the existing targets" in (site.cloud.healthy() or "")
        [note] = await site.balancers.plan(view(), wrong)
        assert "keeps its 2 targets" in note
        await site.ensure(view(), good[:1])
        assert targets(await site.one()).keys() == {number(good[0])}
        assert (site.registry.get_sample_value(metric, labels), site.cloud.healthy()) == (0, None)
        await site.ensure(view(), wrong)
        await site.balancers.delete(view())
        assert site.cloud.healthy() is None


class TestTrouble:
    async def test_bad_annotations_later_keep_no_node_out(self, site: BalancerSite) -> None:
        await site.add_nodes("a")
        await site.ensure(view())
        await site.add_nodes("b")
        with pytest.raises(CloudError, match="'random' is not") as caught:
            await site.ensure(view("web", (80, 31080), annotations={"algorithm-type": "random"}))
        assert caught.value.ingress == (), "annotations say how it is reached, too"
        balancer = await site.one()
        assert len(balancer["targets"]) == 2
        assert balancer["services"][0]["destination_port"] != 31080

    async def test_one_that_serves_no_port_is_reached_nowhere(self, site: BalancerSite) -> None:
        service = view("web", 443, annotations={"protocol": "https", "http-certificates": "4711"})
        with pytest.raises(CloudError) as caught:
            await site.ensure(service)
        assert (await site.one())["services"] == []
        assert caught.value.ingress == ()

    async def test_a_service_without_tcp_gets_an_event_and_no_load_balancer(self, site: BalancerSite) -> None:
        service = view("dns", ServicePort(53, 30053, "UDP"))
        assert await site.balancers.plan(service, []) == []
        result = await site.ensure(service)
        [notice] = result.notices
        assert (notice.reason, notice.warning, result.ingress) == ("UnsupportedProtocolConfigured", True, ())
        assert await site.all() == []
        await site.ensure(view("dns", ServicePort(53, 30053)))
        before = await site.one()
        await site.ensure(service)
        after = await site.one()
        assert (after["id"], after["services"]) == (before["id"], []), "its addresses may be in use"

    async def test_a_lock_is_waited_for(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.sky.fault(method="POST", path="/load_balancers/*", code="locked", times=3)
        await site.ensure(view("web", 80, 81))
        assert len((await site.one())["services"]) == 2

    @pytest.mark.parametrize("code", ["service_error", "server_error", "conflict", "rate_limit_exceeded"])
    async def test_any_error_of_one_step_is_overcome(self, site: BalancerSite, code: str) -> None:
        await site.add_nodes("a", "b")
        await site.ensure(view())
        await site.sky.fault(method="POST", path="/load_balancers/*", code=code, times=8, after=False)
        wanted = view("web", 443, 8080, annotations={"algorithm-type": "least_connections"})
        site.cloud.api.budget.exhausted = lambda: None  # type: ignore[method-assign]
        for _ in range(10):
            try:
                await site.ensure(wanted)
                break
            except CloudError:
                continue
        balancer = await site.one()
        assert [one["listen_port"] for one in balancer["services"]] == [443, 8080]
        assert balancer["algorithm"]["type"] == "least_connections"

    async def test_an_empty_list_for_a_moment_doubles_nothing(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.sky.fault(method="GET", path="/load_balancers", empty_listing=True, times=1)
        site.balancers.inventory.invalid.add(UID)
        with pytest.raises(CloudUnavailable, match="exists, but is missing from the API's list"):
            await site.ensure(view())
        await site.sky.heal()
        await site.ensure(view())
        assert len(await site.all()) == 1

    async def test_one_that_can_not_be_understood_may_be_ours(self, site: BalancerSite) -> None:
        """And what stands beside it goes on."""
        await site.ensure(view())
        view_of_all = site.balancers.inventory.balancers
        fetch = view_of_all._fetch

        async def odd(priority: Priority) -> Listing[LoadBalancer]:
            return Listing((await fetch(priority)).items, (UndecodableItem(7, "odd", "no name"),))

        view_of_all._fetch = odd
        await view_of_all.read(0.0, Priority.SWEEP)
        assert (await site.ensure(view("web", 80, 81))).steps
        with pytest.raises(CloudUnavailable, match=r"load balancer 'odd' \(7\): no name"):
            await site.ensure(view("other", uid="another"))
        assert len(await site.all()) == 1


class TestDelete:
    async def test_one_that_goes_at_the_same_moment_is_gone(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.sky.fault(method="DELETE", path="/load_balancers/*", code="not_found", times=1)
        assert (await site.balancers.delete(view())).steps == ()

    async def test_one_that_is_protected_at_the_same_moment_stays(self, site: BalancerSite) -> None:
        await site.ensure(view())
        await site.sky.fault(method="DELETE", path="/load_balancers/*", code="protected", times=1)
        result = await site.balancers.delete(view())
        assert [notice.reason for notice in result.notices] == ["LoadBalancerProtected"]
        assert LABEL not in (await site.one())["labels"]

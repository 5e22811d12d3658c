from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from balancer_site import BalancerSite, view
from emulated_cloud import OTHER_TOKEN

from ccm.cloud import CloudError
from ccm.hetzner.api.models import (
    HealthCheck,
    LoadBalancer,
    LoadBalancerService,
    LoadBalancerTarget,
    TargetHealth,
    TargetServer,
)
from ccm.hetzner.load_balancers.status import complaints, count_targets

OTHER = "99999999-8888-7777-6666-555555555555"


def balancer(*targets: dict[int, str]) -> LoadBalancer:
    """One with listeners on 80 and 443, and a target for each given health by port."""
    return LoadBalancer(
        1,
        "web",
        services=tuple(
            LoadBalancerService("tcp", p, 30000 + p, health_check=HealthCheck(port=30000 + p))
            for p in (80, 443)
        ),
        targets=tuple(
            LoadBalancerTarget(
                "server",
                server=TargetServer(number),
                health_status=tuple(TargetHealth(port, status) for port, status in target.items()),
            )
            for number, target in enumerate(targets, 1)
        ),
    )


@pytest.mark.parametrize(
    ("target", "ports", "status"),
    [
        ({80: "healthy", 443: "healthy"}, {80, 443}, "healthy"),
        ({80: "healthy", 443: "unhealthy"}, {80, 443}, "unhealthy"),
        ({80: "healthy", 443: "unhealthy"}, {80}, "healthy"),
        ({80: "healthy", 443: "unknown"}, {80, 443}, "unknown"),
        ({}, {80}, "unknown"),
    ],
)
def test_a_target_is_as_well_as_its_worst_port(target: dict[int, str], ports: set[int], status: str) -> None:
    assert count_targets(balancer(target), ports) == Counter({status: 1})


def test_an_unanswered_port_is_reported() -> None:
    sick = balancer({80: "unhealthy", 443: "healthy"}, {80: "unhealthy", 443: "unhealthy"})
    [notice] = complaints(sick, {80, 443})
    assert notice.reason == "NoHealthyTargets"
    assert "health check of port 80 (tcp check on port 30080)." in notice.message
    assert list(complaints(sick, {443})) == []
    assert list(complaints(balancer({80: "unknown"}), {80})) == []
    assert list(complaints(balancer(), {80})) == []


def test_hetzners_reasons_are_reported() -> None:
    sick = balancer({80: "unhealthy"}, {80: "unhealthy"}, {80: "unhealthy"})
    why = [
        TargetHealth(80, "unhealthy", "unexpected_http_status", 503),
        TargetHealth(80, "unhealthy", "layer4_timeout"),
        TargetHealth(80, "unhealthy"),
    ]
    targets = [
        msgspec.structs.replace(one, health_status=(health,))
        for one, health in zip(sick.targets, why, strict=True)
    ]
    for order in (targets, targets[::-1]):
        [notice] = complaints(msgspec.structs.replace(sick, targets=tuple(order)), {80})
        assert "(tcp check on port 30080, layer4_timeout, unexpected_http_status 503)" in notice.message


async def test_it_is_counted_and_reported_with_the_service(site: BalancerSite) -> None:
    await site.add_nodes("a", "b")
    await site.ensure(view())
    known = site.balancers.inventory.balancers
    [found] = known.contents.by_id.values()
    sick = tuple(
        msgspec.structs.replace(target, health_status=(TargetHealth(80, "unhealthy"),))
        for target in found.targets
    )
    known.put(msgspec.structs.replace(found, targets=sick))
    result = await site.ensure(view())
    assert "NoHealthyTargets" in [notice.reason for notice in result.notices]
    labels = {"namespace": "shop", "service": "web", "status": "unhealthy"}
    name = "ccm_hetzner_load_balancer_targets"
    assert site.registry.get_sample_value(name, labels) == 2
    await site.balancers.delete(view())
    assert site.registry.get_sample_value(name, labels) is None


class TestWrongProject:
    async def test_nothing_is_made_where_no_server_is(self, site: BalancerSite) -> None:
        await site.add_nodes("a", "b")
        await site.restart(network=False, HCLOUD_TOKEN=OTHER_TOKEN)
        with pytest.raises(CloudError, match="the cluster has 2 nodes, but none of their servers") as caught:
            await site.ensure(view())
        assert [notice.reason for notice in caught.value.notices] == ["WrongProject"]
        assert (await site.balancers.inventory.all(view(), age=0.0)) == []

    async def test_readiness_tells_until_one_is_seen_again(self, site: BalancerSite) -> None:
        await site.restart(network=False)
        await site.ensure(view())
        token = site.cloud.api.token.read
        site.cloud.api.token.read = lambda: OTHER_TOKEN
        site.balancers.inventory.invalid.add(view().uid)
        with pytest.raises(CloudError, match="another project"):
            await site.ensure(view())
        assert "another project" in str(site.cloud.healthy())
        site.cloud.api.token.read = token
        assert (await site.ensure(view())).steps == ()
        assert site.cloud.healthy() is None
        assert len(await site.all()) == 1

    async def test_all_gone_at_once_is_not_believed_before_a_restart(self, site: BalancerSite) -> None:
        await site.restart(network=False)
        for service in (view(), view("other", 81, uid=OTHER)):
            await site.ensure(service)
        site.cloud.project.confirm(0.0)  # the servers are there
        for one in await site.all():
            await site.sky.call("DELETE", f"/load_balancers/{one['id']}")
        site.balancers.inventory.invalid.add(view().uid)
        for _ in range(2):
            with pytest.raises(CloudError, match="all 2 load balancers disappeared"):
                await site.ensure(view())
        assert "disappeared" in str(site.cloud.healthy())
        assert site.registry.get_sample_value("ccm_hetzner_load_balancers_vanished") == 1
        await site.restart(network=False)
        assert (await site.ensure(view())).steps
        assert site.cloud.healthy() is None

    async def test_a_service_does_not_go_without_its_load_balancer(self, site: BalancerSite) -> None:
        """A forgotten load balancer would cost money without a Service."""
        await site.restart(network=False)
        addresses = tuple(entry.ip for entry in (await site.ensure(view())).ingress)
        leaving = replace(view(), addresses=addresses)
        await site.restart(network=False, HCLOUD_TOKEN=OTHER_TOKEN)
        with pytest.raises(CloudError, match="another project") as caught:
            await site.balancers.delete(leaving)
        assert [notice.reason for notice in caught.value.notices] == ["WrongProject"]
        assert (await site.balancers.delete(view())).steps == (), "this one never had any"
        await site.restart(network=False)
        assert len((await site.balancers.delete(leaving)).steps) == 1
        assert await site.all() == []

    @pytest.mark.parametrize("network", [False, True])
    async def test_a_service_without_its_load_balancer_goes(
        self, site: BalancerSite, *, network: bool
    ) -> None:
        node = (await site.add_nodes("a"))[0]
        await site.restart(network=network)
        if not network:
            await site.cloud.instances.get(node, accepted_age=0)
        assert (await site.balancers.delete(replace(view(), addresses=("203.0.113.9",)))).steps == ()

    async def test_all_gone_at_once_is_believed_if_the_owner_says_so(self, site: BalancerSite) -> None:
        await site.restart(network=False, CCM_MASS_DELETION_BREAKER="false")
        for service in (view(), view("other", 81, uid=OTHER)):
            await site.ensure(service)
        for one in await site.all():
            await site.sky.call("DELETE", f"/load_balancers/{one['id']}")
        assert (await site.balancers.delete(view())).steps == ()
        site.balancers.inventory.invalid.add(view("other", uid=OTHER).uid)
        assert (await site.ensure(view("other", 81, uid=OTHER))).steps
        assert site.cloud.healthy() is None


async def test_calls_are_counted_under_the_official_names(site: BalancerSite) -> None:
    await site.ensure(view())
    await site.balancers.find(view())
    await site.balancers.delete(view())
    for name in ("EnsureLoadBalancer", "GetLoadBalancer", "EnsureLoadBalancerDeleted"):
        labels = {"op": f"hcloud/loadBalancers.{name}"}
        total = site.registry.get_sample_value("cloud_controller_manager_operations_total", labels)
        assert total == 1, name


async def test_looks_at_types_are_counted_under_the_official_name(site: BalancerSite) -> None:
    await site.ensure(view())
    await site.ensure(view("other", 81, uid=OTHER))
    name = "cloud_controller_manager_load_balancer_type_cache_requests_total"
    for result in ("miss", "hit"):
        labels = {"subsystem": "load_balancer", "mode": "all", "result": result}
        assert site.registry.get_sample_value(name, labels) == 1, result

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import NODES, Cluster, run_for, running
from fake_cluster import node as node_object
from prometheus_client import CollectorRegistry

from ccm.cloud import INTERNAL_IP, CloudBusy, CloudUnavailable, Rejected, Route, RouteTable
from ccm.controllers.route import (
    DISPUTE,
    RouteController,
    RouteOptions,
    RoutesNotReconciled,
    parse_additional_cidrs,
    parse_cluster_cidrs,
)
from ccm.hetzner.api import QuotaUsedUp
from ccm.kube.errors import ServerError
from ccm.kube.objects import ObjectReference
from ccm.testing.fake_cloud import FakeRoutes, Script

pytestmark = pytest.mark.looptime

CLUSTER = parse_cluster_cidrs("10.244.0.0/16")
LEASE = ObjectReference(
    api_version="coordination.k8s.io/v1", kind="Lease", namespace="kube-system", name="ccm"
)
CREATED = ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route")
FAILED = ("NetworkUnavailable", "True", "NoRouteCreated", "RouteController failed to create a route")


def controller(
    cluster: Cluster, *, registry: CollectorRegistry | None = None, **options: Any
) -> RouteController:
    made = RouteOptions(**{"cluster_cidrs": CLUSTER, **options})
    parts = (network(cluster), cluster.transport, cluster.nodes, cluster.events, made)
    return RouteController(*parts, registry=registry, about=LEASE)


def network(cluster: Cluster) -> FakeRoutes:
    assert cluster.cloud.routes
    return cluster.cloud.routes


async def add(
    cluster: Cluster, number: int, *cidrs: str, attached: bool = True, server: str = "", **parts: Any
) -> None:
    """Add a Node with these pod CIDRs, or one of its number, and its machine."""
    if attached:
        network(cluster).attach(f"fake://{number}", server or f"server-{number}", f"10.0.0.{number}")
    cidrs = cidrs or (f"10.244.{number}.0/24",)
    usual = {"provider_id": f"fake://{number}", "addresses": ((INTERNAL_IP, f"10.0.0.{number}"),)}
    spec = {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}
    await cluster.add_node(f"n{number}", **{**usual, "spec": spec, **parts})


def conditions(cluster: Cluster, name: str) -> list[tuple[str, ...]]:
    found = cluster.node(name)["status"]["conditions"]
    wanted = [one for one in found if one["type"] == "NetworkUnavailable"]
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in wanted]


def routes(cluster: Cluster) -> dict[str, str]:
    return {route.destination: route.gateway for route in network(cluster).table.routes}


def lose_machines(cluster: Cluster) -> None:
    """Have the cloud answer as if no machine were in the network."""
    network(cluster).table = replace(network(cluster).table, machines={})


async def test_nodes_get_routes_and_the_condition(cluster: Cluster) -> None:
    await add(cluster, 1)
    await add(cluster, 2)
    await controller(cluster).reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1", "10.244.2.0/24": "10.0.0.2"}
    assert conditions(cluster, "n1") == [CREATED]
    ready = [one for one in cluster.node("n1")["status"]["conditions"] if one["type"] == "Ready"]
    assert ready, "conditions of others stay"


@pytest.mark.parametrize(
    ("provider_id", "server", "routed"),
    [("fake://001", "", True), ("", "n1", True), ("", "another", False), ("other://1", "n1", False)],
    ids=["leading zeros", "by its name", "unknown", "another cloud's"],
)
async def test_which_nodes_get_routes(cluster: Cluster, provider_id: str, server: str, routed: bool) -> None:
    await add(cluster, 1, provider_id=provider_id, server=server)
    await controller(cluster).reconcile()
    assert routes(cluster) == ({"10.244.1.0/24": "10.0.0.1"} if routed else {})
    assert conditions(cluster, "n1") == ([CREATED] if routed else [])


async def test_nothing_to_do_costs_one_look_and_no_write(cluster: Cluster) -> None:
    await add(cluster, 1)
    made = controller(cluster)
    await made.reconcile()
    await cluster.settle()
    cluster.transport.requests.clear()
    cluster.cloud.script.calls.clear()
    await made.reconcile()
    assert cluster.writes() == []
    assert cluster.cloud.script.calls == [("list-routes", "")]


@pytest.mark.parametrize(
    ("before", "error", "after"),
    [
        (None, Rejected("full"), FAILED),
        (("False", "RouteCreated"), None, (*CREATED[:3], "old")),
        (("False", "other"), None, CREATED),
        (("True", "other"), Rejected("full"), FAILED),
        (("False", "RouteCreated"), Rejected("full"), FAILED),
        (
            ("True", "NoRouteCreated"),
            Rejected("full"),
            ("NetworkUnavailable", "True", "NoRouteCreated", "old"),
        ),
    ],
)
async def test_the_condition(
    cluster: Cluster, before: tuple[str, str] | None, error: Exception | None, after: tuple[str, ...]
) -> None:
    await add(cluster, 1)
    if before:
        item = cluster.node("n1")
        old = {"type": "NetworkUnavailable", "status": before[0], "reason": before[1], "message": "old"}
        item["status"]["conditions"].append(old)
        cluster.transport.put(NODES, item)
        await cluster.settle()
    if error:
        cluster.cloud.script.fail("create-route", error)
        with pytest.raises(RoutesNotReconciled):
            await controller(cluster).reconcile()
    else:
        await controller(cluster).reconcile()
    assert conditions(cluster, "n1") == [after]


async def test_one_failed_route_does_not_stop_the_others(cluster: Cluster) -> None:
    for number in (1, 2, 3):
        await add(cluster, number)
    cluster.cloud.script.fail("create-route", CloudBusy("locked"), times=1)
    with pytest.raises(RoutesNotReconciled, match="n1: locked"):
        await controller(cluster).reconcile()
    assert set(routes(cluster)) == {"10.244.2.0/24", "10.244.3.0/24"}
    assert conditions(cluster, "n1") == [FAILED]
    assert conditions(cluster, "n2") == [CREATED]
    ((name, kind, reason, message),) = cluster.events.all
    uid = cluster.node("n1")["metadata"]["uid"]
    assert (name, kind, reason) == ("n1", "Warning", "FailedToCreateRoute")
    assert message.startswith(f"Could not create route {uid} 10.244.1.0/24 for node n1 after ")
    assert message.endswith("ms: locked")


@pytest.mark.parametrize("watch_based", [False, True])
async def test_a_failed_route_is_tried_again(cluster: Cluster, watch_based: bool) -> None:
    cluster.cloud.script.fail("create-route", CloudUnavailable("down"), times=3)
    await add(cluster, 1)
    await run_for(controller(cluster, watch_based=watch_based), 60)
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1"}
    assert conditions(cluster, "n1") == [CREATED]


@pytest.mark.parametrize(
    "error", [CloudBusy("locked"), CloudUnavailable("down"), QuotaUsedUp(3600, 90)], ids=str
)
async def test_a_failure_that_affects_all_is_met_twice(cluster: Cluster, error: Exception) -> None:
    """Each would wait for it, one after the other."""
    for number in range(1, 21):
        await add(cluster, number)
    cluster.cloud.script.fail("create-route", error)
    made = controller(cluster)
    with pytest.raises(
        RoutesNotReconciled,
        match=f"n9: the CCM did not try to create this route, because other routes failed: {error}",
    ):
        await made.reconcile()
    assert cluster.cloud.script.count("create-route") == 2
    assert conditions(cluster, "n9") == [FAILED]
    cluster.cloud.script.heal("create-route")
    await made.reconcile()
    assert len(routes(cluster)) == 20


async def test_what_is_refused_to_one_is_asked_for_all(cluster: Cluster) -> None:
    for number in range(1, 6):
        await add(cluster, number)
    cluster.cloud.script.fail("create-route", Rejected("no"), times=4)
    with pytest.raises(RoutesNotReconciled):
        await controller(cluster).reconcile()
    assert len(routes(cluster)) == 1


async def test_a_cloud_that_cannot_be_listed_changes_nothing(cluster: Cluster) -> None:
    network(cluster).script.fail("list-routes", CloudUnavailable("down"))
    await add(cluster, 1)
    made = controller(cluster)
    await run_for(made, 100)
    assert conditions(cluster, "n1") == []
    assert made.healthy() is None
    await run_for(made, 900)
    assert "every attempt to reconcile routes has failed" in (made.healthy() or "")


async def test_one_nodes_trouble_is_not_the_controllers(cluster: Cluster) -> None:
    await add(cluster, 1, attached=False)
    await add(cluster, 2)
    made = controller(cluster)
    await run_for(made, 3000)
    assert made.healthy() is None


async def test_a_new_node_is_served_soon_and_a_crowd_in_one_run(cluster: Cluster) -> None:
    async with running(controller(cluster, watch_based=True)):
        await cluster.settle(100)
        await add(cluster, 1)
        await cluster.settle(1)
        assert len(routes(cluster)) == 1
        for number in range(2, 30):
            await add(cluster, number)
        await cluster.settle(11)
        assert len(routes(cluster)) == 29
        before = cluster.cloud.script.count("list-routes")
        await cluster.settle(3600)
        assert cluster.cloud.script.count("list-routes") - before <= 14


async def test_heartbeats_do_not_trigger(cluster: Cluster) -> None:
    await add(cluster, 1)
    async with running(controller(cluster, watch_based=True)):
        await cluster.settle(30)
        before = cluster.cloud.script.count("list-routes")
        for beat in range(20):
            item = cluster.node("n1")
            item["status"]["conditions"][0]["message"] = str(beat)
            cluster.transport.put(NODES, item)
            await cluster.settle(1)
        assert cluster.cloud.script.count("list-routes") == before


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"attached": False}, "n1: the machine of the node is not in the network"),
        (
            {"addresses": ((INTERNAL_IP, "192.168.7.1"),)},
            r"address 10\.0\.0\.1 in the network, but the node has no InternalIP",
        ),
    ],
)
async def test_a_machine_without_a_possible_route(cluster: Cluster, parts: dict[str, Any], why: str) -> None:
    await add(cluster, 1, **parts)
    with pytest.raises(RoutesNotReconciled, match=why):
        await controller(cluster).reconcile()
    assert routes(cluster) == {}
    assert conditions(cluster, "n1") == [FAILED]
    assert cluster.events.reasons("n1") == ["FailedToCreateRoute"]


@pytest.mark.parametrize("mass_deletion_breaker", [True, False])
async def test_a_network_without_machines(cluster: Cluster, mass_deletion_breaker: bool) -> None:
    for number in (1, 2, 3):
        await add(cluster, number)
    registry = CollectorRegistry()
    made = controller(cluster, registry=registry, mass_deletion_breaker=mass_deletion_breaker)
    await made.reconcile()
    known = network(cluster).table.machines
    lose_machines(cluster)
    with pytest.raises(RoutesNotReconciled):
        await made.reconcile()
    assert len(routes(cluster)) == (3 if mass_deletion_breaker else 0)
    if mass_deletion_breaker:
        assert "3 routes are not deleted" in (made.healthy() or "")
        ((_, kind, reason, message),) = [one for one in cluster.events.all if one[0] == LEASE.name]
        assert (kind, reason) == ("Warning", "RouteDeletionPaused")
        assert "--mass-deletion-breaker=false" in message
        assert registry.get_sample_value("ccm_route_deletions_paused") == 3
        network(cluster).table = replace(network(cluster).table, machines=known)
        await made.reconcile()
    assert made.healthy() is None


async def test_the_limit_is_reported_before_it_is_reached(cluster: Cluster) -> None:
    others = tuple(Route(f"10.9.{number}.0/24", "10.0.0.250") for number in range(9))
    network(cluster).table = replace(network(cluster).table, routes=others, machines={}, limit=10)
    await add(cluster, 1)
    await controller(cluster).reconcile()
    text = "After this change, the network has 10 routes (limit: 10)"
    assert ("n1", "Warning", "RouteLimitNear", text) in cluster.events.all


async def test_a_pod_cidr_outside_of_the_clusters(cluster: Cluster) -> None:
    await add(cluster, 1, "10.99.0.0/24")
    with pytest.raises(RoutesNotReconciled):
        await controller(cluster).reconcile()
    assert routes(cluster) == {}
    assert set(cluster.events.reasons("n1")) == {"ClusterCIDRMisconfigured", "FailedToCreateRoute"}
    more = parse_additional_cidrs(["10.98.0.0/16", "10.99.0.0/16"])
    await controller(cluster, more_cidrs=more).reconcile()
    assert routes(cluster) == {"10.99.0.0/24": "10.0.0.1"}


async def test_a_node_whose_problem_lasts_and_that_never_rests_costs_a_few_looks(cluster: Cluster) -> None:
    await add(cluster, 1, attached=False)
    async with running(controller(cluster)):
        for second in range(600):
            item = cluster.node("n1")
            item["status"]["addresses"] = [{"type": INTERNAL_IP, "address": f"10.0.0.{second % 200}"}]
            cluster.transport.put(NODES, item)
            await cluster.settle(1)
    # Half of them take what is there already.
    assert cluster.cloud.script.count("list-routes") <= 10 + 10 + 600 / 10 + 5


async def test_a_condition_that_cannot_be_written_is_tried_again(cluster: Cluster) -> None:
    await add(cluster, 1)
    cluster.transport.fail(ServerError(500, "", "no"), verb="patch", prefix=f"{NODES}/n1/status")
    await run_for(controller(cluster), 20)
    assert conditions(cluster, "n1") == [CREATED]


async def test_a_node_that_vanishes_meanwhile(cluster: Cluster) -> None:
    await add(cluster, 1)

    async def vanish(_: str) -> None:
        cluster.transport.remove(f"{NODES}/n1")

    cluster.cloud.script.during("create-route", vanish)
    await controller(cluster).reconcile()


async def test_a_used_up_quota_is_reported(cluster: Cluster) -> None:
    await add(cluster, 1)
    cluster.cloud.script.fail("list-routes", QuotaUsedUp(3600, 90), times=1)
    made = controller(cluster)
    with pytest.raises(QuotaUsedUp):
        await made.reconcile()
    assert cluster.events.reasons(LEASE.name) == ["RateLimited"]
    await made.reconcile()
    assert len(routes(cluster)) == 1


async def test_two_families_route_one_and_explain_the_other_once(cluster: Cluster) -> None:
    await add(cluster, 1, "10.244.1.0/24", "fd00:10:244:1::/64")
    made = controller(cluster, cluster_cidrs=parse_cluster_cidrs("10.244.0.0/16,fd00:10:244::/56"))
    for _ in range(3):
        await made.reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1"}
    assert conditions(cluster, "n1") == [CREATED]
    ((name, kind, reason, message),) = cluster.events.all
    assert (name, kind, reason) == ("n1", "Normal", "PodCIDRNotRouted")
    assert "fd00:10:244:1::/64" in message
    assert "10.244.1.0/24" not in message


async def test_runs_are_counted_by_trigger_and_outcome(cluster: Cluster) -> None:
    registry = CollectorRegistry()
    made = controller(cluster, registry=registry, watch_based=True)
    await add(cluster, 1)
    await made.reconcile()
    await made.reconcile()
    cluster.cloud.script.fail("list-routes", CloudUnavailable("no answer"), times=1)
    with pytest.raises(CloudUnavailable):
        await made.reconcile()
    for trigger, outcome in (("node_change", "changed"), ("periodic", "noop"), ("periodic", "error")):
        labels = {"trigger": trigger, "outcome": outcome}
        assert registry.get_sample_value("route_controller_route_sync_total", labels) == 1


async def test_a_recreated_node_is_unavailable_until_it_has_its_route(cluster: Cluster) -> None:
    await add(cluster, 1)
    made = controller(cluster)
    await made.reconcile()
    cluster.transport.remove(f"{NODES}/n1")
    await cluster.settle()
    await add(cluster, 1, spec={})
    await made.reconcile()
    assert conditions(cluster, "n1") == [FAILED]
    item = cluster.node("n1")
    item["spec"] |= {"podCIDR": "10.244.9.0/24", "podCIDRs": ["10.244.9.0/24"]}
    cluster.transport.put(NODES, item)
    await cluster.settle()
    await made.reconcile()
    assert conditions(cluster, "n1") == [CREATED]
    assert routes(cluster) == {"10.244.9.0/24": "10.0.0.1"}


@pytest.mark.parametrize(("watch_based", "most", "least"), [(False, 32, 29), (True, 3, 1)])
async def test_how_often_it_lists_routes(cluster: Cluster, watch_based: bool, most: int, least: int) -> None:
    await add(cluster, 1)
    await run_for(controller(cluster, watch_based=watch_based), 299)
    assert least <= cluster.cloud.script.count("list-routes") <= most


async def test_a_node_that_goes_before_the_first_run_is_remembered(cluster: Cluster) -> None:
    made = controller(cluster)
    await add(cluster, 1)
    await add(cluster, 2)
    stale = (Route("10.244.2.0/24", "10.0.0.2"),)
    network(cluster).table = replace(network(cluster).table, routes=stale)
    cluster.transport.remove(f"{NODES}/n2")
    await cluster.settle()
    await made.reconcile()
    assert set(routes(cluster)) == {"10.244.1.0/24"}


async def test_machines_that_are_gone_are_not_remembered_for_ever(cluster: Cluster) -> None:
    made = controller(cluster)
    await add(cluster, 99)
    for number in range(1, 20):
        await add(cluster, number)
        await made.reconcile()
        cluster.transport.remove(f"{NODES}/n{number}")
        await cluster.settle()
        await made.reconcile()
        lose_machines(cluster)
        network(cluster).attach("fake://99", "server-99", "10.0.0.99")
    await made.reconcile()
    assert set(routes(cluster)) == {"10.244.99.0/24"}
    assert [provider_id for provider_id, _ in made._former] == ["fake://99"]


async def test_the_condition_is_not_written_to_a_namesake(cluster: Cluster) -> None:
    await add(cluster, 1)

    async def during(_: str) -> None:
        cluster.transport.remove(f"{NODES}/n1")
        cluster.transport.put(NODES, node_object("n1"))

    cluster.cloud.script.during("create-route", during)
    with pytest.raises(
        RoutesNotReconciled, match="could not write the condition NetworkUnavailable of node n1"
    ):
        await controller(cluster).reconcile()
    assert conditions(cluster, "n1") == []


async def test_a_new_node_after_an_early_run_is_not_delayed(cluster: Cluster) -> None:
    """A change that finds a run already due sooner must not stand in for a run after that."""
    made = controller(cluster, watch_based=True, resync_period=300.0)
    running = asyncio.create_task(run_for(made, 330))  # runs at 0 s and, by itself, at 300 s
    await asyncio.sleep(299.7)
    await add(cluster, 1)
    await asyncio.sleep(0.4)
    assert len(routes(cluster)) == 1
    await add(cluster, 2)
    await running
    assert len(routes(cluster)) == 2


async def test_a_route_to_a_foreign_machine_is_replaced_after_a_restart(cluster: Cluster) -> None:
    """Nobody reaches the new node's Pods as long as their range leads to what once was another's."""
    fake = network(cluster)
    await add(cluster, 1)
    fake.attach("fake://7", "server-7", "10.0.0.7")
    fake.table = replace(fake.table, routes=(Route("10.244.1.0/24", "10.0.0.7"),))
    await controller(cluster).reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1"}
    assert conditions(cluster, "n1") == [CREATED]
    ((name, kind, reason, message),) = cluster.events.all
    assert (name, kind, reason) == ("n1", "Warning", "RouteReplaced")
    assert "10.0.0.7, the address of machine server-7" in message


async def test_two_clusters_with_equal_pod_cidrs_stop_replacing_routes(cluster: Cluster) -> None:
    fake = network(cluster)
    await add(cluster, 1)
    fake.attach("fake://7", "server-7", "10.0.0.7")
    theirs = Route("10.244.1.0/24", "10.0.0.7")
    fake.table = replace(fake.table, routes=(theirs,))
    made = controller(cluster)
    await made.reconcile()
    fake.table = replace(fake.table, routes=(theirs,))
    for _ in range(2):
        with pytest.raises(
            RoutesNotReconciled,
            match=r"routes this pod CIDR to 10\.0\.0\.7\. This address belongs to machine server-7",
        ):
            await made.reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.7"}
    await asyncio.sleep(DISPUTE)
    await made.reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1"}


async def test_what_leads_to_a_former_node_or_nowhere_is_replaced_without_a_warning(cluster: Cluster) -> None:
    fake = network(cluster)
    made = controller(cluster)
    await add(cluster, 1)
    await add(cluster, 2)
    await made.reconcile()
    cluster.transport.remove(f"{NODES}/n2")
    await cluster.settle()
    stale = (Route("10.244.1.0/24", "10.0.0.2"), Route("10.244.3.0/24", "10.0.0.99"))
    fake.table = replace(fake.table, routes=stale)
    await add(cluster, 3)
    await made.reconcile()
    assert routes(cluster) == {"10.244.1.0/24": "10.0.0.1", "10.244.3.0/24": "10.0.0.3"}
    assert cluster.events.all == []


class Pictures(FakeRoutes):
    """A network that answers from its last picture where that is young enough."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.taken: list[float] = []
        self._picture = self.table

    async def list(self, *, accepted_age: float) -> RouteTable:
        now = asyncio.get_running_loop().time()
        if not self.taken or now - self.taken[-1] > accepted_age:
            self.taken.append(now)
            self._picture = self.table
            await asyncio.sleep(0.5)
        return self._picture


async def test_routes_are_changed_from_a_picture_of_the_same_run(cluster: Cluster) -> None:
    pictures = cluster.cloud.routes = Pictures()
    made = controller(cluster)
    for number in (1, 2):
        await add(cluster, number)
        await made.reconcile()
        assert len(routes(cluster)) == len(pictures.taken) == number
        await asyncio.sleep(1)

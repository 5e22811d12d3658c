import asyncio
from typing import Any

import pytest
from service_cluster import SHOP, node, running, service

from ccm.cloud import (
    CloudUnavailable,
    ImplementedElsewhere,
    Ingress,
    LoadBalancerResult,
    Notice,
    Rejected,
    RetryAfter,
    ServiceView,
)
from ccm.controllers.names import AUTOSCALER_TAINT, CLEANUP_FINALIZER, EXCLUDE_FROM_LOAD_BALANCERS
from ccm.controllers.service.controller import ServiceNotSynced, ServiceOptions
from ccm.controllers.service.policy import Classes
from ccm.kube.errors import Conflict, Forbidden, ServerError
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime


async def test_a_service_gets_its_load_balancer_finalizer_and_address() -> None:
    async with running() as cluster:
        await cluster.put_node("a")
        await cluster.put("web")
        assert cluster.ingress("web") == [{"ip": "203.0.113.80", "ipMode": "VIP"}]
        assert cluster.finalizers("web") == [CLEANUP_FINALIZER]
        assert cluster.targets("web") == ("a",)
        assert cluster.patches() == 2
        assert cluster.events.reasons("web") == ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]


@pytest.mark.parametrize(
    ("parts", "calls", "patches"),
    [
        *(({"ports": ((53, 30053, kind),)}, ["ensure"], 2) for kind in ("TCP", "UDP", "SCTP")),
        ({"finalizer": True}, ["ensure"], 1),
        *(({"type": kind}, [], 0) for kind in ("ClusterIP", "NodePort", "ExternalName")),
        ({"loadBalancerClass": "metallb.example/bgp", "finalizer": True}, [], 0),
        ({"metadata": {"finalizers": ["a.example/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}, [], 0),
    ],
)
async def test_what_a_new_service_costs(parts: dict[str, Any], calls: list[str], patches: int) -> None:
    async with running() as cluster:
        await cluster.put("web", **parts)
        await cluster.settle(60)
        assert (cluster.calls(), cluster.patches()) == (calls, patches)


async def test_a_foreign_service_that_loses_its_class_stays_foreign() -> None:
    async with running() as cluster:
        await cluster.put("web", loadBalancerClass="metallb.example/bgp", finalizer=True)
        await cluster.change("web", lambda item: item.update(spec={"type": "ClusterIP"}))
        assert cluster.calls() == []
        assert cluster.finalizers("web") == [CLEANUP_FINALIZER]


async def test_our_own_class_is_ours() -> None:
    options = ServiceOptions(classes=Classes(frozenset({"hetzner.cloud/lb"}), without=False))
    async with running(options) as cluster:
        await cluster.put("ours", loadBalancerClass="hetzner.cloud/lb")
        await cluster.put("theirs")
        assert [subject for _, subject in cluster.cloud.script.calls] == ["shop/ours"]


async def test_a_service_of_our_class_loses_its_load_balancer_with_its_type() -> None:
    """Kubernetes takes the class away together with the type."""
    options = ServiceOptions(classes=Classes(frozenset({"hetzner.cloud/lb"}), without=False))
    async with running(options) as cluster:
        await cluster.put("web", loadBalancerClass="hetzner.cloud/lb")
        await cluster.change("web", lambda item: item.update(spec={"type": "ClusterIP"}))
        assert cluster.balancers.targets == {}
        assert cluster.ingress("web") == []
        assert cluster.finalizers("web") == []


async def test_a_service_that_another_class_took_meanwhile_is_not_held_by_us() -> None:
    theirs = {"type": "LoadBalancer", "loadBalancerClass": "metallb.example/bgp"}
    async with running() as cluster:
        cluster.cloud.script.delay("ensure", 10)
        await cluster.put("web")
        await cluster.change("web", lambda item: item.update(spec={"type": "ClusterIP"}, status={}))
        await cluster.change("web", lambda item: item.update(spec=theirs))
        await cluster.settle(60)
        assert cluster.balancers.targets == {}
        assert cluster.finalizers("web") == []
        patches = cluster.patches()
        await cluster.settle(1000)
        assert cluster.patches() == patches


async def test_an_address_without_a_mode_is_written_as_the_api_server_completes_it() -> None:
    """Or it would be written again at each look."""
    async with running() as cluster:
        cluster.balancers.ingress = (Ingress(ip="203.0.113.80"), Ingress(hostname="shop.example.com"))
        await cluster.put("web")
        assert cluster.ingress("web") == [
            {"ip": "203.0.113.80", "ipMode": "VIP"},
            {"hostname": "shop.example.com"},
        ]


async def test_a_restart_says_nothing_and_writes_nothing() -> None:
    async with running() as before:
        await before.put_node("a")
        await before.put("web")
        transport = before.transport
        state = before.balancers
    async with running(transport=transport) as after:
        # the first sync happened on an empty fake: give it the former state and look again
        after.balancers.targets, after.balancers.services = state.targets, state.services
        after.events.all.clear()
        transport.requests.clear()
        after.controller.resync()
        await after.settle()
        assert after.events.all == []
        assert after.patches() == 0


async def test_a_service_that_becomes_clusterip_loses_its_load_balancer() -> None:
    async with running() as cluster:
        await cluster.put_node("a")
        await cluster.put("web")
        await cluster.change("web", lambda item: item["spec"].update(type="ClusterIP"))
        assert cluster.balancers.targets == {}
        assert cluster.ingress("web") == []
        assert cluster.finalizers("web") == []
        assert cluster.events.reasons("web")[2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]


async def test_a_deleted_service_goes_after_its_load_balancer() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.transport.remove(f"{SHOP}/web")
        await cluster.settle()
        assert cluster.transport.all(SHOP) == []
        assert cluster.balancers.targets == {}


async def test_deleting_what_never_existed_is_silent() -> None:
    async with running() as cluster:
        await cluster.put("web", finalizer=True, type="ClusterIP")
        assert cluster.finalizers("web") == []
        assert cluster.events.all == []


async def test_the_finalizer_stays_until_the_cloud_has_deleted() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.cloud.script.fail("delete-load-balancer", CloudUnavailable("no answer"), times=2)
        cluster.transport.remove(f"{SHOP}/web")
        await cluster.settle(1)
        assert cluster.finalizers("web") == [CLEANUP_FINALIZER]
        message = "Error syncing load balancer: failed to delete load balancer: no answer"
        assert cluster.events.messages("SyncLoadBalancerFailed") == [message]
        await cluster.settle(60)
        assert cluster.transport.all(SHOP) == []


async def test_other_changes_of_a_service_that_can_not_be_deleted_do_not_hurry_the_next_try() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.cloud.script.fail("delete-load-balancer", CloudUnavailable("no answer"))
        cluster.transport.remove(f"{SHOP}/web")
        await cluster.settle(16)  # tried at 0, 5 and 15 s; next at 35 s
        tries = len(cluster.calls("delete-load-balancer"))
        for number in range(5):
            await cluster.change(
                "web", lambda item, n=number: item["metadata"]["annotations"].update(n=str(n))
            )
        assert len(cluster.calls("delete-load-balancer")) == tries == 3


async def test_a_failed_lookup_before_cleanup_deletes_nothing() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.cloud.script.fail("find", CloudUnavailable("no answer"))
        cluster.transport.remove(f"{SHOP}/web")
        await cluster.settle(1)
        assert "delete-load-balancer" not in cluster.calls()
        [message] = cluster.events.messages("SyncLoadBalancerFailed")
        assert "failed to check if load balancer exists before cleanup: no answer" in message


async def test_an_error_is_an_event_and_a_retry_after_five_seconds() -> None:
    async with running() as cluster:
        cluster.cloud.script.fail("ensure", CloudUnavailable("no answer"), times=1)
        await cluster.put("web")
        expected = "Error syncing load balancer: failed to ensure load balancer: no answer"
        assert cluster.events.messages("SyncLoadBalancerFailed") == [expected]
        await cluster.settle(4)
        assert cluster.calls() == ["ensure"]
        await cluster.settle(2)
        assert cluster.ingress("web")
        assert cluster.controller.queue.failures("shop/web") == 0


async def test_what_serves_in_part_has_its_address_in_the_status() -> None:
    async with running() as cluster:
        failure = CloudUnavailable("port 443 has no certificate")
        failure.ingress = (Ingress(ip="203.0.113.7", ip_mode="VIP"),)
        cluster.cloud.script.fail("ensure", failure)
        await cluster.put("web")
        await cluster.settle(1)
        assert cluster.ingress("web") == [{"ip": "203.0.113.7", "ipMode": "VIP"}]
        text = "Error syncing load balancer: failed to ensure load balancer: port 443 has no certificate"
        assert cluster.events.messages("SyncLoadBalancerFailed") == [text]
        assert cluster.events.messages("EnsuredLoadBalancer") == []
        assert cluster.controller.queue.failures("shop/web")
        patches = cluster.patches()
        await cluster.settle(600)
        assert cluster.patches() == patches, "the same address is written once"


async def test_retries_slow_down_to_five_minutes() -> None:
    async with running(ServiceOptions(resync_period=0)) as cluster:
        cluster.cloud.script.fail("ensure", Rejected("no"))
        await cluster.put("web")
        await cluster.settle(5 + 10 + 20 + 40 + 80 + 160 + 1)
        before = len(cluster.calls())
        await cluster.settle(3000)
        assert before == 7
        assert len(cluster.calls()) - before == 10


async def test_a_retry_after_is_kept_exactly_and_counts_as_no_failure() -> None:
    async with running() as cluster:
        cluster.cloud.script.fail("ensure", RetryAfter("busy", 42.0), times=1)
        await cluster.put("web")
        assert cluster.controller.queue.failures("shop/web") == 0
        await cluster.settle(41)
        assert cluster.calls() == ["ensure"]
        await cluster.settle(1)
        assert cluster.calls() == ["ensure", "ensure"]


async def test_implemented_elsewhere_is_a_success_without_a_status() -> None:
    async with running() as cluster:
        cluster.cloud.script.fail("ensure", ImplementedElsewhere())
        await cluster.put("web")
        assert cluster.ingress("web") == []
        assert cluster.finalizers("web") == [CLEANUP_FINALIZER]
        assert cluster.events.reasons() == ["EnsuringLoadBalancer"]


async def test_a_conflicting_status_write_is_an_event_and_repeated() -> None:
    async with running() as cluster:
        await cluster.put("web", finalizer=True, type="ClusterIP")
        cluster.transport.fail(Conflict(409, "Conflict", "too late"), verb="patch", times=1)
        await cluster.put("other", finalizer=True)
        [message] = cluster.events.messages("SyncLoadBalancerFailed")
        assert message == "Error syncing load balancer: failed to update load balancer status: too late"
        await cluster.settle(6)
        assert cluster.ingress("other")


async def test_a_finalizer_that_cannot_be_written_stops_before_the_cloud() -> None:
    async with running() as cluster:
        cluster.transport.fail(ServerError(500, "", "broken"), verb="patch", times=1)
        await cluster.put("web")
        assert cluster.calls() == []
        assert "failed to add load balancer cleanup finalizer: broken" in cluster.events.all[-1][3]


async def test_a_recreated_service_loses_the_old_load_balancer_first() -> None:
    async with running() as cluster:
        await cluster.put("web")
        old = cluster.read("web")["metadata"]["uid"]
        item = cluster.read("web")
        item["metadata"]["finalizers"] = []
        cluster.transport.put(SHOP, item)
        cluster.transport.remove(f"{SHOP}/web")
        cluster.transport.put(SHOP, service("web"))
        await cluster.settle()
        assert old not in cluster.balancers.targets
        assert list(cluster.balancers.targets) == [cluster.read("web")["metadata"]["uid"]]


@pytest.mark.parametrize(
    ("finalizers", "end"),
    [
        ([], {"spec": {"type": "ClusterIP"}}),
        (["other.example/wait"], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
)
async def test_what_we_made_goes_without_our_finalizer_too(finalizers: list[str], end: dict) -> None:
    """As when somebody replaces the whole object."""
    async with running() as cluster:
        await cluster.put("web")

        def replace(item: dict) -> None:
            item["metadata"]["finalizers"] = finalizers
            for part, values in end.items():
                item[part].update(values)

        await cluster.change("web", replace)
        assert cluster.balancers.targets == {}
        assert cluster.finalizers("web") == finalizers
        calls = len(cluster.calls())
        await cluster.settle(1000)
        assert len(cluster.calls("delete-load-balancer")) == 1, calls


async def test_a_service_that_changes_its_mind_while_its_load_balancer_goes() -> None:
    async with running(ServiceOptions(resync_period=0)) as cluster:
        await cluster.put("web")

        async def during(_: str) -> None:
            item = cluster.read("web")
            item["spec"]["type"] = "LoadBalancer"
            cluster.transport.put(SHOP, item)
            await asyncio.sleep(0.01)

        cluster.cloud.script.during("delete-load-balancer", during)
        await cluster.change("web", lambda item: item["spec"].update(type="ClusterIP"))
        await cluster.settle(60)
        assert list(cluster.balancers.targets) == [cluster.read("web")["metadata"]["uid"]]
        assert cluster.finalizers("web") == [CLEANUP_FINALIZER]
        assert cluster.ingress("web") == [{"ip": "203.0.113.80", "ipMode": "VIP"}]


async def test_a_service_that_only_our_copy_lost_keeps_its_load_balancer() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.services._objects.clear()
        cluster.controller.queue.add("shop/web")
        await cluster.settle()
        assert len(cluster.balancers.targets) == 1


async def test_an_odd_key_is_refused() -> None:
    async with running() as cluster:
        with pytest.raises(ServiceNotSynced, match='unexpected key format: "invalid/key/string"'):
            await cluster.controller.reconcile("invalid/key/string")


class Webhook(MemoryTransport):
    """An API server whose admission webhook takes addresses out of statuses."""

    async def patch(self, path: str, body: Any, kind: Any, **more: Any) -> Any:
        undone = {"status": {"loadBalancer": {}}} if "status" in body else {}
        return await super().patch(path, {**body, **undone}, kind, **more)


@pytest.mark.parametrize("refused", [True, False])
async def test_a_status_that_is_never_taken_costs_few_calls(refused: bool) -> None:
    transport = MemoryTransport() if refused else Webhook()
    async with running(transport=transport) as cluster:
        if refused:
            path = f"{SHOP}/web/status"
            cluster.transport.fail(Forbidden(403, "Forbidden", "no"), verb="patch", prefix=path, times=9999)
        await cluster.put("web", finalizer=True)
        await asyncio.sleep(3600)  # short: virtual time
        first = cluster.patches()
        assert 3 <= first <= 8
        assert set(cluster.events.reasons()) >= {"SyncLoadBalancerFailed"}
        await asyncio.sleep(3600)  # short: virtual time
        assert cluster.patches() - first <= 4


async def test_drift_is_looked_for_and_an_event_tells_only_of_a_repair() -> None:
    async with running(ServiceOptions(resync_period=300)) as cluster:
        await cluster.put_node("a")
        await cluster.put("web")
        cluster.events.all.clear()
        await cluster.settle(301)
        assert cluster.calls("ensure") == ["ensure", "ensure"]
        assert cluster.events.all == []
        cluster.balancers.targets.clear()
        await cluster.settle(300)
        assert cluster.events.reasons() == ["EnsuredLoadBalancer"]


async def test_a_leftover_of_a_service_is_reported_once_and_left() -> None:
    async with running(ServiceOptions(resync_period=300)) as cluster:
        await cluster.put("web")
        lost = ServiceView("shop", "lost", "uid-lost", {}, ())
        await cluster.balancers.ensure(lost, [])
        cluster.cloud.script.fail("orphans", CloudUnavailable("no answer"), times=1)
        await cluster.settle(301)
        assert "LoadBalancerOrphaned" not in cluster.events.reasons()
        await cluster.settle(900)
        [message] = cluster.events.messages("LoadBalancerOrphaned")
        assert message.startswith("the load balancer of shop/lost was created for this Service, but")
        assert cluster.events.reasons("lost") == ["LoadBalancerOrphaned"]
        assert "uid-lost" in cluster.balancers.targets
        assert cluster.metric("ccm_load_balancer_orphans") == 1


async def test_notices_are_reported_once_until_they_change() -> None:
    async with running() as cluster:
        notices = (Notice("MaxTargetsReached", "left out: b"),)

        async def ensure(service, nodes):
            return LoadBalancerResult((Ingress(ip="203.0.113.80"),), notices=notices)

        cluster.balancers.ensure = ensure  # type: ignore[method-assign]
        await cluster.put("web")
        await cluster.settle(1000)
        assert cluster.events.messages("MaxTargetsReached") == ["left out: b"]
        notices = (Notice("MaxTargetsReached", "left out: c"),)
        await cluster.settle(1000)
        assert cluster.events.messages("MaxTargetsReached") == ["left out: b", "left out: c"]


class TestNodes:
    async def test_new_nodes_reach_all_load_balancers_once(self) -> None:
        async with running() as cluster:
            await cluster.put_node("a")
            for name in ("one", "two", "three"):
                await cluster.put(name)
            await cluster.put("inner", type="NodePort")
            cluster.cloud.script.calls.clear()
            cluster.events.all.clear()
            await cluster.put_node("b")
            assert sorted(subject for _, subject in cluster.cloud.script.calls) == [
                "shop/one",
                "shop/three",
                "shop/two",
            ]
            assert cluster.targets("one") == ("a", "b")
            assert set(cluster.events.reasons()) == {"UpdatedLoadBalancer"}

    @pytest.mark.parametrize(
        ("change", "targets"),
        [
            ({"taints": (AUTOSCALER_TAINT,)}, ("a",)),
            ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}, ("a",)),
            ({"ready": False}, ("a", "b")),
            ({"taints": ("example.com/unrelated",)}, ("a", "b")),
        ],
    )
    async def test_nodes_that_leave_and_nodes_that_stay(self, change: dict, targets: tuple[str, ...]) -> None:
        async with running() as cluster:
            await cluster.put_node("a")
            await cluster.put_node("b")
            await cluster.put("web")
            await cluster.put_node("b", **change)
            assert cluster.targets("web") == targets

    @pytest.mark.parametrize(
        ("change", "calls"),
        [
            ({"ready": False, "taints": ("example.com/unrelated",)}, 1),
            ({"provider_id": "fake://other"}, 2),
            ({"labels": {"pool": "edge"}}, 2),
        ],
    )
    async def test_only_what_matters_costs_a_call(self, change: dict, calls: int) -> None:
        async with running() as cluster:
            await cluster.put_node("a")
            await cluster.put("web")
            await cluster.put_node("a", **change)
            assert cluster.calls() == ["ensure"] * calls

    async def test_a_node_that_never_rests_is_no_change_of_all_load_balancers_each_time(self) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            await cluster.put_node("a")
            await cluster.put_node("b")
            await cluster.put("web")
            for change in range(600):
                await cluster.put_node("a", labels={"pool": f"edge-{change}"})
                await cluster.settle(1)
            calls = len(cluster.calls("ensure"))
            assert 10 < calls < 40
            await cluster.settle(120)
            assert len(cluster.calls("ensure")) == calls + 1, "the last change was lost, or is made for ever"
            await cluster.put_node("a", labels={"pool": "edge"})
            await cluster.put_node("b", labels={"pool": "edge"})
            again = len(cluster.calls("ensure"))
            for change in range(20):
                await cluster.put_node("a", labels={"pool": f"edge-{change}"})
            await cluster.put_node("a", labels={EXCLUDE_FROM_LOAD_BALANCERS: ""})
            assert cluster.targets("web") == ("b",), "who leaves need not wait"
            assert again > calls

    async def test_addresses_matter_as_soon_as_there_is_a_machine(self) -> None:
        """A Robot server is a target by its address, which its kubelet may tell late."""
        async with running() as cluster:
            await cluster.put("web")
            for provider_id, calls in (("", 2), ("fake://a", 4)):
                item = node("a", provider_id=provider_id)
                cluster.transport.put("/api/v1/nodes", item)
                await cluster.settle()
                item["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]
                cluster.transport.put("/api/v1/nodes", item)
                await cluster.settle()
                assert len(cluster.calls("ensure")) == calls

    async def test_the_cloud_learns_whether_all_nodes_were_taken_out_on_purpose(self) -> None:
        label = {"node.kubernetes.io/exclude-from-external-load-balancers": ""}
        async with running() as cluster:
            await cluster.put("web")
            uid = cluster.read("web")["metadata"]["uid"]
            assert not cluster.balancers.services[uid].hosts_excluded, "there are no Nodes"
            await cluster.put_node("a")
            assert not cluster.balancers.services[uid].hosts_excluded
            await cluster.put_node("a", labels=label)
            assert cluster.balancers.services[uid].hosts_excluded
            assert cluster.events.messages("UnAvailableLoadBalancer")[-1].endswith(
                f"{next(iter(label))} excludes a"
            )

    async def test_a_failed_update_has_upstreams_event_and_is_repeated(self) -> None:
        async with running() as cluster:
            await cluster.put_node("a")
            await cluster.put("web")
            cluster.cloud.script.fail("ensure", CloudUnavailable("no answer"), times=1)
            await cluster.put_node("b")
            hosts = "[a b] [node names limited, total number of nodes: 2]"
            expected = f"Error updating load balancer with new hosts {hosts}, error: no answer"
            assert cluster.events.messages("UpdateLoadBalancerFailed") == [expected]
            await cluster.settle(6)
            assert cluster.targets("web") == ("a", "b")

    @pytest.mark.parametrize("waits", [0, 700])
    async def test_other_nodes_reach_a_failing_service_at_once(self, waits: float) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            await cluster.put_node("a")
            await cluster.put("web")
            cluster.cloud.script.fail("ensure", CloudUnavailable("no answer"))
            await cluster.put_node("b")
            await cluster.settle(waits)
            assert cluster.targets("web") == ("a",)
            cluster.cloud.script.heal("ensure")
            await cluster.put_node("a", labels={EXCLUDE_FROM_LOAD_BALANCERS: ""})
            assert cluster.targets("web") == ("b",)

    async def test_nodes_do_not_hurry_a_deletion_that_fails(self) -> None:
        async with running() as cluster:
            await cluster.put("web")
            cluster.cloud.script.fail("delete-load-balancer", CloudUnavailable("no answer"))
            cluster.transport.remove(f"{SHOP}/web")
            await cluster.settle()
            for number in range(5):
                await cluster.put_node(f"n{number}")
            assert len(cluster.calls("delete-load-balancer")) == 1

    async def test_a_slow_update_never_overwrites_a_newer_one(self) -> None:
        async with running() as cluster:
            await cluster.put_node("a")
            await cluster.put("one")
            await cluster.put("two")
            cluster.cloud.script.delay("ensure", 10)
            await cluster.put_node("b")
            await cluster.put_node("c")
            await cluster.settle(60)
            assert cluster.targets("one") == cluster.targets("two") == ("a", "b", "c")

    async def test_a_node_that_comes_while_the_first_look_lasts_is_not_lost(self) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            cluster.cloud.script.delay("ensure", 10)
            await cluster.put("web")
            await cluster.put_node("a")
            await cluster.settle(60)
            assert cluster.targets("web") == ("a",)


async def test_a_deletion_does_not_wait_until_another_load_balancer_is_made() -> None:
    async with running() as cluster:
        await cluster.put("web")
        cluster.cloud.script.delay("ensure", 1000)
        await cluster.put("slow")
        cluster.transport.remove(f"{SHOP}/web")
        await cluster.settle()
        assert cluster.calls("delete-load-balancer")
        assert cluster.transport.all(SHOP) == [cluster.read("slow")]


class TestWhatWaitsForItsTurn:
    """One load balancer is made at a time here; that of ``slow`` takes a while."""

    async def test_is_processed_in_its_current_state(self) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            cluster.cloud.script.delay("ensure", 60)
            await cluster.put("slow")
            await cluster.put("web", annotations={"location": "fsn1"})
            cluster.cloud.script.delay("ensure", 0)
            corrected = {"location": "hel1"}
            await cluster.change("web", lambda item: item["metadata"].update(annotations=corrected))
            await cluster.put_node("a")
            await cluster.settle(60)
            [made] = [one for one in cluster.balancers.services.values() if one.name == "web"]
            assert made.annotations == corrected
            assert cluster.targets("web") == ("a",)
            assert cluster.events.reasons("web") == ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]

    async def test_is_not_made_if_it_is_gone_by_then(self) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            cluster.cloud.script.delay("ensure", 60)
            await cluster.put("slow")
            await cluster.put("web")
            cluster.transport.remove(f"{SHOP}/web")
            await cluster.settle(200)
            assert ("ensure", "shop/web") not in cluster.cloud.script.calls
            assert cluster.events.reasons("web") == []

    async def test_keeps_its_load_balancer_if_it_wants_one_again_by_then(self) -> None:
        async with running(ServiceOptions(resync_period=0)) as cluster:
            await cluster.put("slow")
            await cluster.put("web")
            cluster.cloud.script.delay("delete-load-balancer", 60)
            cluster.transport.remove(f"{SHOP}/slow")
            await cluster.settle()
            await cluster.change("web", lambda item: item["spec"].update(type="ClusterIP"))
            await cluster.change("web", lambda item: item["spec"].update(type="LoadBalancer"))
            await cluster.settle(200)
            assert ("delete-load-balancer", "shop/web") not in cluster.cloud.script.calls
            assert cluster.finalizers("web") == [CLEANUP_FINALIZER]


async def test_health_tells_of_lists_that_are_not_there_and_of_work_that_hangs() -> None:
    async with running() as cluster:
        assert cluster.controller.healthy() is None
        cluster.cloud.script.delay("ensure", 10_000)
        await cluster.put("web")
        await cluster.settle(1000)
        assert "the same Service for 1000 s" in str(cluster.controller.healthy())

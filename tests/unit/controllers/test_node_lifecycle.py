import asyncio
from typing import Any

import pytest
from fake_cluster import NODES, Cluster, instance, run_for
from fake_cluster import node as node_object
from prometheus_client import CollectorRegistry

from ccm.cloud import AccessDenied, CloudUnavailable, InstanceNotFound, Notice
from ccm.controllers.names import OUT_OF_SERVICE_TAINT, SHUTDOWN_TAINT
from ccm.controllers.node_lifecycle import NodeLifecycleController, NodeLifecycleOptions
from ccm.hetzner.api import QuotaUsedUp
from ccm.kube.errors import Forbidden
from ccm.kube.informer import Informer
from ccm.kube.objects import Node

pytestmark = pytest.mark.looptime

SHUTDOWN = {"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}


def controller(cluster: Cluster, **options: Any) -> NodeLifecycleController:
    registry = CollectorRegistry()
    made = NodeLifecycleController(
        cluster.instances,
        cluster.transport,
        cluster.nodes,
        cluster.events,
        NodeLifecycleOptions(**options),
        registry=registry,
    )
    made.registry = registry  # type: ignore[attr-defined]
    return made


def paused(made: NodeLifecycleController) -> float | None:
    return made.registry.get_sample_value("ccm_node_lifecycle_deletions_paused")  # type: ignore[attr-defined]


def set_ready(cluster: Cluster, name: str, status: str = "True") -> None:
    item = cluster.node(name)
    item["status"]["conditions"] = [{"type": "Ready", "status": status}]
    cluster.transport.put(NODES, item)


async def add_off(cluster: Cluster, **node: Any) -> None:
    """Add the Node ``a`` of a machine that is shut down."""
    cluster.instances.add(instance("a", shut_down=True))
    await cluster.add_node("a", **{"provider_id": "fake://1", "ready": "False", **node})


@pytest.mark.parametrize("ready", ["False", "Unknown", None])
async def test_a_node_whose_machine_is_gone_is_deleted(cluster: Cluster, ready: str | None) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready=ready)
    await run_for(controller(cluster), 11)
    assert cluster.names() == []
    message = "Deleting node a because it does not exist in the cloud provider"
    assert cluster.events.all == [("a", "Normal", "DeletingNode", message)]
    reference = cluster.events.references[0]
    assert (reference.api_version, reference.kind, bool(reference.uid)) == ("v1", "Node", True)


@pytest.mark.parametrize("ready", ["False", "Unknown", "True", None])
async def test_a_node_whose_machine_is_there_stays(cluster: Cluster, ready: str | None) -> None:
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", provider_id="fake://1", ready=ready)
    await run_for(controller(cluster), 100)
    assert cluster.names() == ["a"]
    assert cluster.writes() == []


@pytest.mark.parametrize(
    ("node", "error", "asks"),
    [
        ({"provider_id": "fake://1", "ready": "True"}, None, False),
        ({"provider_id": "other://1", "ready": "False"}, None, False),
        ({"provider_id": "fake://1", "ready": "False"}, CloudUnavailable("down"), True),
        ({"provider_id": "fake://1", "ready": "False"}, AccessDenied("another project"), True),
    ],
    ids=["ready", "foreign", "no answer", "no access"],
)
async def test_nodes_that_are_not_deleted(
    cluster: Cluster, node: dict[str, Any], error: Exception | None, asks: bool
) -> None:
    if error is not None:
        cluster.instances.errors["a"] = error  # type: ignore[assignment]
    await cluster.add_node("a", **node)
    await run_for(controller(cluster), 100)
    assert cluster.names() == ["a"]
    assert cluster.events.all == []
    assert bool(cluster.cloud.script.calls) is asks


async def test_one_denial_is_not_enough(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await made.monitor()
    assert cluster.names() == ["a"]
    assert cluster.cloud.script.count("get") == 1
    await asyncio.sleep(5)
    await made.monitor()
    assert cluster.names() == []


async def test_denials_must_follow_each_other(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await made.monitor()
    for _ in range(10):  # every second direct question ends in an error
        cluster.cloud.script.fail("get", CloudUnavailable("down"), times=1)
        await asyncio.sleep(5)
        await made.monitor()
        await asyncio.sleep(5)
        await made.monitor()
    assert cluster.names() == ["a"]


async def test_confirmations_may_be_switched_off(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    await controller(cluster, confirmations=0).monitor()
    assert cluster.names() == []


async def test_a_node_that_was_replaced_is_not_deleted_for_its_predecessor(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster, confirmations=1)

    async def replace(_: str) -> None:
        cluster.transport.remove(f"{NODES}/a")
        cluster.transport.put(NODES, node_object("a", provider_id="fake://2", ready="True"))

    cluster.cloud.script.during("get", replace)
    await made.monitor()
    assert cluster.node("a")["spec"]["providerID"] == "fake://2"


async def test_a_node_that_never_had_a_machine_stays_unless_wanted_otherwise(cluster: Cluster) -> None:
    await cluster.add_node("a", ready="False", tainted=True)
    await run_for(controller(cluster), 100)
    assert cluster.names() == ["a"]
    await run_for(controller(cluster, delete_without_provider_id=True), 11)
    assert cluster.names() == []


HOUR = 3600.0


@pytest.mark.parametrize("finalizer", [True, False])
async def test_a_node_that_can_not_be_deleted_costs_few_calls(cluster: Cluster, finalizer: bool) -> None:
    """By a finalizer (wrangler.cattle.io/node), or because the API server refuses; each call may be two."""
    metadata = {"finalizers": ["wrangler.cattle.io/node"]} if finalizer else {}
    if not finalizer:
        cluster.transport.fail(Forbidden(403, "Forbidden", "may not delete nodes"), verb="delete", times=99)
    cluster.instances.add(instance("b", 2))
    await cluster.add_node("b", provider_id="fake://2")
    await cluster.add_node("a", provider_id="fake://1", ready="False", metadata=metadata)
    made, calls = controller(cluster), cluster.cloud.script.calls
    await run_for(made, HOUR)
    reason = "DeletingNode" if finalizer else "DeletingNodeFailed"
    tries = cluster.events.reasons().count(reason)
    assert (tries, cluster.writes().count("delete")) == ((1, 1) if finalizer else (6, 6))
    assert len(calls) <= (5 if finalizer else 16), calls
    before = len(calls)
    await run_for(made, HOUR)
    assert cluster.cloud.script.count("get") <= (2 if finalizer else 9)
    assert len(calls) - before <= (0 if finalizer else 4)


@pytest.mark.parametrize("back", [False, True])
async def test_a_refused_deletion_is_retried_unless_the_machine_is_back(cluster: Cluster, back: bool) -> None:
    cluster.transport.fail(Forbidden(403, "Forbidden", "may not delete nodes"), verb="delete")
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await run_for(made, 30)
    failed = ("a", "Warning", "DeletingNodeFailed", "Failed deleting node a: may not delete nodes")
    assert failed in cluster.events.all
    if back:
        cluster.instances.add(instance("a", shut_down=True))
    await run_for(made, 100)
    assert [cluster.taints(name) for name in cluster.names()] == ([[SHUTDOWN_TAINT]] if back else [])


async def test_a_look_that_contradicts_the_list_is_repeated_ever_more_rarely(cluster: Cluster) -> None:
    """The list is truncated, or old, and the direct look finds the machine."""
    cluster.instances.add(instance("a"))

    async def lack(_: str) -> None:
        cluster.instances.errors["a"] = InstanceNotFound("a")

    async def have(_: str) -> None:
        cluster.instances.errors.clear()

    cluster.cloud.script.during("list", lack)
    cluster.cloud.script.during("get", have)
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    await run_for(controller(cluster), HOUR)
    assert cluster.names() == ["a"]
    assert cluster.cloud.script.count("get") < 70


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("ready", [True, False])
async def test_taints_without_effect_cost_few_calls(cluster: Cluster, refused: bool, ready: bool) -> None:
    """The API server refuses them, or accepts the change and an admission webhook takes it back."""
    cluster.instances.add(instance("a", shut_down=True))
    taints = (SHUTDOWN,) if ready else ()
    await cluster.add_node(
        "a", provider_id="fake://1", ready="True" if ready else "False", taints=taints, spec={}
    )
    if refused:
        cluster.transport.fail(Forbidden(403, "Forbidden", "no"), verb="patch", times=9999)
    made = controller(cluster)
    task = asyncio.create_task(made.run())
    patches = []
    for _ in range(2):
        for _ in range(1 if refused else 3600):
            await asyncio.sleep(3600 if refused else 1)  # short: virtual time
            if not refused and cluster.taints("a") != [taint["key"] for taint in taints]:
                item = cluster.node("a")
                item["spec"]["taints"] = list(taints)
                cluster.transport.put(NODES, item)
        patches.append(cluster.writes().count("patch"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert patches[0] <= 7
    assert patches[1] - patches[0] <= 2


async def test_a_shut_down_machine_taints_its_node_until_it_is_ready(cluster: Cluster) -> None:
    await add_off(cluster, taints=({"key": "x", "effect": "NoExecute"},))
    made = controller(cluster)
    await run_for(made, 600)
    assert cluster.node("a")["spec"]["taints"] == [{"key": "x", "effect": "NoExecute"}, SHUTDOWN]
    assert cluster.writes() == ["patch"], "the taint is written once"
    cluster.instances.shut_down("fake://1", off=False)
    await run_for(made, 100)
    assert SHUTDOWN_TAINT in cluster.taints("a"), "running isn't enough, it must be Ready"
    set_ready(cluster, "a")
    await run_for(made, 1)
    assert cluster.taints("a") == ["x"]


@pytest.mark.parametrize(
    ("node", "taints"),
    [
        ({"provider_id": ""}, [SHUTDOWN_TAINT]),
        ({"ready": "True", "taints": (SHUTDOWN,)}, []),
        ({"provider_id": "other://1", "ready": "True", "taints": (SHUTDOWN,)}, [SHUTDOWN_TAINT]),
    ],
    ids=["found by name", "ready whatever the cloud says", "another cloud's"],
)
async def test_taints(cluster: Cluster, node: dict[str, Any], taints: list[str]) -> None:
    await add_off(cluster, **node)
    await run_for(controller(cluster), 1)
    assert cluster.taints("a") == taints


@pytest.mark.parametrize("out_of_service", [True, False])
async def test_a_persons_out_of_service_taint_stays(cluster: Cluster, out_of_service: bool) -> None:
    by_hand = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
    await add_off(cluster, taints=(by_hand,))
    made = controller(cluster, out_of_service=out_of_service)
    await run_for(made, 100)
    assert cluster.node("a")["spec"]["taints"] == [by_hand, SHUTDOWN]
    set_ready(cluster, "a")
    await run_for(made, 1)
    assert cluster.node("a")["spec"]["taints"] == [by_hand]


async def test_volumes_are_freed_only_if_configured(cluster: Cluster) -> None:
    await add_off(cluster)
    made = controller(cluster, out_of_service=True)
    await run_for(made, 1)
    assert cluster.taints("a") == [SHUTDOWN_TAINT, OUT_OF_SERVICE_TAINT]
    set_ready(cluster, "a")
    await run_for(made, 1)
    assert cluster.taints("a") == []


async def test_volumes_of_a_machine_that_runs_after_all_are_not_freed(cluster: Cluster) -> None:
    """The list says off; asked directly, the cloud says that it runs."""
    await add_off(cluster)

    async def start(_: str) -> None:
        cluster.instances.shut_down("fake://1", off=False)

    cluster.cloud.script.during("get", start)
    await run_for(controller(cluster, out_of_service=True), 1)
    assert cluster.taints("a") == [SHUTDOWN_TAINT]


async def test_volumes_are_not_freed_while_the_cloud_does_not_answer(cluster: Cluster) -> None:
    await add_off(cluster)
    cluster.cloud.script.fail("get", CloudUnavailable("no answer"), times=1)
    made = controller(cluster, out_of_service=True)
    await run_for(made, 1)
    assert cluster.taints("a") == [SHUTDOWN_TAINT]
    await run_for(made, 60)
    assert cluster.taints("a") == [SHUTDOWN_TAINT, OUT_OF_SERVICE_TAINT]
    assert cluster.cloud.script.count("get") == 2, "once the machine is found, no further requests"


async def test_a_used_up_quota_is_reported_and_shows_in_health(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    cluster.cloud.script.fail("list", QuotaUsedUp(3600, 90))
    made = controller(cluster)
    await run_for(made, 100)
    assert set(cluster.events.reasons("a")) == {"RateLimited"}
    assert made.healthy() is None
    await run_for(made, 300)
    assert "for 400 s, the controller has failed to check" in (made.healthy() or "")
    cluster.cloud.script.heal("list")
    await run_for(made, 61)
    assert made.healthy() is None


async def test_an_hour_off_costs_few_looks(cluster: Cluster) -> None:
    await add_off(cluster)
    await run_for(controller(cluster), 3600)
    assert len(cluster.cloud.script.calls) <= 70


async def test_being_ready_in_between_makes_the_next_look_soon(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await run_for(made, 600)
    for ready in ("True", "False"):
        set_ready(cluster, "a", ready)
        await run_for(made, 6)
    before = len(cluster.cloud.script.calls)
    await run_for(made, 11)
    assert len(cluster.cloud.script.calls) - before >= 1


async def fill(cluster: Cluster, count: int, *, present: int, ready: str = "False") -> None:
    for number in range(1, count + 1):
        if number <= present:
            cluster.instances.add(instance(f"n{number}", number))
        cluster.transport.put(NODES, node_object(f"n{number}", provider_id=f"fake://{number}", ready=ready))
    await cluster.settle()


async def test_no_node_is_deleted_when_all_machines_vanish(cluster: Cluster) -> None:
    await fill(cluster, 5, present=0)
    made = controller(cluster)
    await run_for(made, 3600)
    assert len(cluster.names()) == 5
    assert set(cluster.events.reasons()) == {"NodeDeletionPaused"}
    assert "Check the token" in (made.healthy() or "")
    assert paused(made) == 1
    assert cluster.cloud.script.count("get") == 0
    assert len(cluster.cloud.script.calls) < 200, "and it costs little to wait"


async def test_ready_nodes_are_witnesses_too(cluster: Cluster) -> None:
    """One Node is not Ready, but the token's project has none of the machines."""
    await fill(cluster, 4, present=0, ready="True")
    await cluster.add_node("n5", provider_id="fake://5", ready="False")
    made = controller(cluster)
    await run_for(made, 600)
    assert len(cluster.names()) == 5


async def test_it_goes_on_when_the_machines_are_back(cluster: Cluster) -> None:
    await fill(cluster, 4, present=0)
    made = controller(cluster)
    await run_for(made, 60)
    for number in range(1, 4):
        cluster.instances.add(instance(f"n{number}", number))
    await run_for(made, 300)
    assert cluster.names() == ["n1", "n2", "n3"]
    assert made.healthy() is None
    assert paused(made) == 0


async def test_most_nodes_go_only_after_a_while(cluster: Cluster) -> None:
    await fill(cluster, 6, present=1)
    made = controller(cluster)
    await run_for(made, 250)
    assert len(cluster.names()) == 6
    assert "NodeDeletionPaused" in cluster.events.reasons()
    await run_for(made, 250)
    assert cluster.names() == ["n1"]


async def test_the_breaker_can_be_switched_off(cluster: Cluster) -> None:
    await fill(cluster, 5, present=0)
    await run_for(controller(cluster, mass_deletion_breaker=False), 11)
    assert cluster.names() == []


async def test_the_clouds_answers_are_counted(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await made.monitor()
    name = "cloud_node_lifecycle_controller_cloud_provider_calls_total"
    for operation in ("instance_exists", "instance_shutdown"):
        labels = {"operation": operation, "result": "success"}
        assert made.registry.get_sample_value(name, labels) == 1  # type: ignore[attr-defined]


async def test_a_new_node_of_the_same_name_starts_without_its_predecessors_denials(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    made = controller(cluster)
    await run_for(made, 1)
    cluster.transport.remove(f"{NODES}/a")
    await cluster.add_node("a", provider_id="fake://2", ready="False")
    await asyncio.sleep(6)
    await run_for(made, 1)
    assert cluster.names() == ["a"]
    await run_for(made, 10)
    assert cluster.names() == []


async def test_it_does_not_look_before_the_list_of_nodes_is_complete(cluster: Cluster) -> None:
    cluster.nodes = Informer(cluster.transport, NODES, Node)  # it does not run
    made = controller(cluster)
    await run_for(made, 60)
    name = "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds_count"
    assert made.registry.get_sample_value(name) == 0  # type: ignore[attr-defined]
    assert "not complete yet" in (made.healthy() or "")


async def test_a_proof_that_can_not_be_had_is_asked_for_less_and_less_often(cluster: Cluster) -> None:
    """As while the token belongs to another project: each question costs two requests."""
    await cluster.add_node("a", provider_id="fake://1", ready="False")
    denied = AccessDenied("another project", notices=[Notice("WrongProject", "another project")])
    cluster.cloud.script.fail("get", denied)
    await run_for(controller(cluster), 3600)
    assert cluster.names() == ["a"]
    assert cluster.cloud.script.count("get") < 70
    assert set(cluster.events.reasons("a")) == {"WrongProject"}


async def test_nodes_that_never_had_a_machine_count_when_all_are_gone(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await cluster.add_node(name, ready="False")
    await run_for(controller(cluster, delete_without_provider_id=True), 1000)
    assert cluster.names() == ["a", "b", "c"]
    assert set(cluster.events.reasons()) == {"NodeDeletionPaused"}

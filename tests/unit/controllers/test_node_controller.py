import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fake_cluster import NODES, Cluster, instance, running
from fake_cluster import node as node_object
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from ccm.cloud import Address, CloudUnavailable, Instance, InstanceNotFound, NodeView, Notice
from ccm.controllers.names import PROVIDED_NODE_IP, UNINITIALIZED_TAINT
from ccm.controllers.node import NodeController, NodeNotInitialized, NodeOptions, accepted_age
from ccm.controllers.nodes import TRIES, add_taint, evenly, update_node
from ccm.kube.errors import Conflict, ConnectionFailed, Forbidden
from ccm.kube.informer import Informer
from ccm.kube.objects import Node, ObjectMeta, Taint, decode_object
from ccm.testing.fake_cloud import FakeInstances, Script
from ccm.testing.memory_transport import MemoryTransport

pytestmark = pytest.mark.looptime

EXTERNAL, INTERNAL, HOSTNAME = "ExternalIP", "InternalIP", "Hostname"
ALL_OF_1 = [(HOSTNAME, "a"), (EXTERNAL, "203.0.113.1"), (INTERNAL, "10.0.0.1")]


def controller(cluster: Cluster, **options: Any) -> NodeController:
    registry = CollectorRegistry()
    made = NodeController(
        cluster.instances,
        cluster.transport,
        cluster.nodes,
        cluster.events,
        NodeOptions(**options),
        registry=registry,
        now=lambda: datetime.now(UTC) + timedelta(seconds=3),
    )
    made.registry = registry  # type: ignore[attr-defined]
    return made


async def introduced(cluster: Cluster, *, machine: Any = None, **node: Any) -> None:
    """Reconcile the new Node ``a`` of a machine."""
    cluster.instances.add(machine or instance("a"))
    await cluster.add_node("a", **{"tainted": True, **node})
    await controller(cluster).reconcile("a")


async def test_a_new_node_gets_all_that_the_cloud_knows(cluster: Cluster) -> None:
    machine = instance("a", labels={"provided-by": "cloud", "kubernetes.io/no": "x"})
    await introduced(cluster, machine=machine, taints=({"key": "other", "effect": "NoExecute"},))
    node = cluster.node("a")
    assert node["spec"]["providerID"] == "fake://1"
    assert cluster.taints("a") == ["other"]
    assert cluster.addresses("a") == ALL_OF_1
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "eu-central"
    assert node["metadata"]["labels"]["provided-by"] == "cloud"
    assert "kubernetes.io/no" not in node["metadata"]["labels"]
    assert cluster.events.all == [("a", "Normal", "Synced", "Node synced successfully")]


async def test_addresses_are_there_before_the_taint_goes(cluster: Cluster) -> None:
    seen: list[tuple[bool, bool]] = []
    cluster.nodes.add_handler(
        lambda _, new: seen.append((bool(new.status.addresses), bool(new.spec.taints))) if new else None
    )
    await introduced(cluster)
    await cluster.settle()
    assert (False, False) not in seen
    assert seen[-1] == (True, False)


async def test_the_taint_goes_whatever_its_value_and_effect(cluster: Cluster) -> None:
    await introduced(cluster, taints=({"key": UNINITIALIZED_TAINT, "effect": "NoExecute", "value": "x"},))
    assert cluster.taints("a") == []


async def test_a_provider_id_is_never_changed(cluster: Cluster) -> None:
    await introduced(cluster, machine=instance("b", 2), provider_id="fake://2")
    assert cluster.node("a")["spec"]["providerID"] == "fake://2"
    assert cluster.taints("a") == []


async def test_without_any_provider_id_the_node_keeps_its_taint(cluster: Cluster) -> None:
    cluster.instances.by_id[""] = instance("a").__class__("", "a")
    await cluster.add_node("a", tainted=True)
    with pytest.raises(NodeNotInitialized, match="cloud provider does not set node provider ID for node a"):
        await controller(cluster).reconcile("a")
    assert cluster.writes() == []


BETA, GA = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("node", "calls"),
    [
        ({"tainted": True, "provider_id": "other://2"}, 1),
        ({"provider_id": "other://1", "labels": {BETA: "b", GA: "a"}}, 0),
        ({"provider_id": "fake://1"}, 0),
        ({"addresses": ((INTERNAL, "192.168.1.1"),)}, 1),
    ],
    ids=["another cloud's", "another cloud's labels", "initialized", "no cloud's"],
)
async def test_nodes_that_are_left_alone(cluster: Cluster, node: dict[str, Any], calls: int) -> None:
    await cluster.add_node("a", **node)
    await controller(cluster).reconcile("a")
    assert cluster.writes() == []
    assert cluster.events.all == []
    assert cluster.cloud.script.count("get") == calls


async def test_an_unknown_machine_leaves_the_node_as_it_is(cluster: Cluster) -> None:
    await cluster.add_node("a", tainted=True)
    with pytest.raises(NodeNotInitialized, match="failed to get instance metadata for node a: instance not"):
        await controller(cluster).reconcile("a")
    assert cluster.writes() == []


async def test_only_a_lasting_failure_of_the_cloud_is_an_event(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    cluster.cloud.script.fail("get", CloudUnavailable("no answer in time"), times=2)
    await cluster.add_node("a", tainted=True)
    async with running(controller(cluster)):
        await asyncio.sleep(5)
        assert cluster.events.reasons("a") == ["Synced"]
        cluster.cloud.script.fail("get", CloudUnavailable("no answer in time"))
        await cluster.add_node("b", tainted=True)
        await asyncio.sleep(60)
    assert set(cluster.events.reasons("b")) == {"NodeNotInitialized"}
    assert any("no answer in time" in message for who, _, _, message in cluster.events.all if who == "b")


async def test_the_clouds_notices_become_events(cluster: Cluster) -> None:
    error = CloudUnavailable("odd", notices=[Notice("InstanceLookupFailed", "two machines have this name")])
    cluster.instances.errors["a"] = error
    await cluster.add_node("a", tainted=True)
    with pytest.raises(NodeNotInitialized):
        await controller(cluster).reconcile("a")
    assert cluster.events.all == [("a", "Warning", "InstanceLookupFailed", "two machines have this name")]


KUBELETS = ((HOSTNAME, "a"), (INTERNAL, "10.0.0.7"))


async def test_without_addresses_of_the_cloud_the_kubelets_stay(cluster: Cluster) -> None:
    await introduced(cluster, machine=instance("a", addresses=()), addresses=KUBELETS)
    assert cluster.addresses("a") == [*KUBELETS]
    assert cluster.taints("a") == []


@pytest.mark.parametrize("provided", ["10.9.9.9", "invalid-ip"])
async def test_a_node_ip_that_it_lacks_is_explained_with_both_sides(cluster: Cluster, provided: str) -> None:
    with pytest.raises(NodeNotInitialized, match="failed to get node modifiers from cloud provider"):
        await introduced(cluster, annotations={PROVIDED_NODE_IP: provided})
    assert cluster.writes() == []
    (event,) = cluster.events.all
    assert event[1:3] == ("Warning", "ProvidedNodeIPInvalid")
    assert f"--node-ip={provided}" in event[3]
    assert "InternalIP 10.0.0.1" in event[3]


async def test_a_concurrent_write_is_not_lost(cluster: Cluster) -> None:
    """The cached Node is older than a taint that somebody added: the taint must survive."""
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", tainted=True)
    added = {"key": "added", "effect": "NoSchedule"}
    item = cluster.node("a")
    item["spec"]["taints"].append(added)
    cluster.transport.put(NODES, item)  # the informer has not seen this yet
    await controller(cluster).reconcile("a")
    assert cluster.taints("a") == ["added"]


async def test_conflicts_are_fought_out(cluster: Cluster) -> None:
    cluster.instances.add(instance("a", addresses=()))
    await cluster.add_node("a", tainted=True)
    conflict = Conflict(409, "Conflict", "modified")
    cluster.transport.fail(conflict, verb="patch", prefix=f"{NODES}/a", times=5)
    await controller(cluster).reconcile("a")
    assert cluster.taints("a") == []


async def test_a_node_that_was_replaced_meanwhile_is_not_touched(cluster: Cluster) -> None:
    cluster.instances.add(instance("a", addresses=()))
    await cluster.add_node("a", tainted=True)
    cluster.transport.remove(f"{NODES}/a")
    cluster.transport.put(NODES, node_object("a", tainted=True))
    await controller(cluster).reconcile("a")
    assert cluster.taints("a") == [UNINITIALIZED_TAINT]


async def test_a_vanished_node_is_no_failure(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", tainted=True)
    cluster.transport.remove(f"{NODES}/a")
    made = controller(cluster)
    await made.reconcile("a")
    await made.reconcile("never-was")


async def test_its_labels_follow_their_older_names(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1", labels={BETA: "hel1", GA: "fsn1"})
    await controller(cluster).reconcile("a")
    assert cluster.node("a")["metadata"]["labels"][GA] == "hel1"


async def test_a_node_untainted_by_hand_is_still_introduced(cluster: Cluster) -> None:
    await introduced(cluster, tainted=False)
    assert cluster.node("a")["spec"]["providerID"] == "fake://1"
    assert cluster.addresses("a") == ALL_OF_1


async def test_the_delay_since_creation_is_measured(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", tainted=True)
    made = controller(cluster)
    await made.reconcile("a")
    for name in (
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
    ):
        assert made.registry.get_sample_value(f"{name}_count") == 1  # type: ignore[attr-defined]
        assert made.registry.get_sample_value(f"{name}_bucket", {"le": "16.0"}) == 1  # type: ignore[attr-defined]


async def test_what_is_put_right_in_the_cloud_is_noticed_within_five_minutes(cluster: Cluster) -> None:
    """Upstream notices it at the kubelet's next report."""
    async with running(controller(cluster)):
        await cluster.add_node("a", tainted=True)
        await cluster.settle(6400)
        cluster.instances.add(instance("a"))
        await cluster.settle(301)
        assert cluster.taints("a") == []


async def test_heartbeats_neither_cost_calls_nor_bypass_the_back_off(cluster: Cluster) -> None:
    cluster.cloud.script.fail("get", CloudUnavailable("down"))
    async with running(controller(cluster)):
        await cluster.add_node("a", tainted=True)
        await cluster.settle(60)
        before = cluster.cloud.script.count("get")
        for beat in range(20):
            item = cluster.node("a")
            item["status"]["conditions"] = [{"type": "Ready", "status": "True", "message": str(beat)}]
            cluster.transport.put(NODES, item)
            await cluster.settle()
        assert cluster.cloud.script.count("get") - before <= 1


@pytest.mark.parametrize("tainted", [True, False])
async def test_constant_changes_of_a_node_cost_few_calls(cluster: Cluster, tainted: bool) -> None:
    """The cloud has no machine of that name, so there is no answer that could be taken again."""
    async with running(controller(cluster)):
        await cluster.add_node("a", tainted=tainted)
        for change in range(600):
            item = cluster.node("a")
            item["metadata"]["annotations"] = {"agent/seen": str(change)}
            cluster.transport.put(NODES, item)
            await cluster.settle(1)
        assert cluster.cloud.script.count("get") < 50
        cluster.instances.add(instance("a"))
        await cluster.settle(301)
        assert cluster.node("a")["spec"]["providerID"], "a change was lost"


async def test_one_look_at_the_cloud_refreshes_a_hundred_nodes(cluster: Cluster) -> None:
    for number in range(1, 101):
        cluster.instances.add(instance(f"n{number}", number))
        cluster.transport.put(NODES, node_object(f"n{number}", provider_id=f"fake://{number}"))
    await cluster.settle()
    made = controller(cluster, concurrent_status_updates=10)
    await made.refresh_all()
    await cluster.settle()
    assert cluster.cloud.script.calls[0][0] == "list"
    assert len(cluster.cloud.script.calls) == 1
    assert all((EXTERNAL, f"203.0.113.{n}") in cluster.addresses(f"n{n}") for n in range(1, 101))
    cluster.transport.requests.clear()
    await made.refresh_all()
    assert cluster.writes() == [], "a second run has nothing to do"


async def test_two_addresses_of_a_type_are_no_change_every_time(cluster: Cluster) -> None:
    dual = (Address(EXTERNAL, "203.0.113.1"), Address(EXTERNAL, "2001:db8::1"))
    cluster.instances.add(instance("a", addresses=dual))
    await cluster.add_node("a", provider_id="fake://1")
    made = controller(cluster)
    await made.refresh_all()
    await cluster.settle()
    assert cluster.addresses("a") == [(EXTERNAL, "203.0.113.1"), (EXTERNAL, "2001:db8::1")]
    writes = len(cluster.writes())
    await made.refresh_all()
    assert len(cluster.writes()) == writes


TYPE, ZONE, BY_HAND = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "set-by-hand"


@pytest.mark.parametrize(
    ("refresh_labels", "found"), [(False, ("cpx22", BY_HAND, None)), (True, ("cpx32", "fsn1", "cloud"))]
)
async def test_type_and_zone(cluster: Cluster, refresh_labels: bool, found: tuple[str | None, ...]) -> None:
    """The official CCM lets labels be that people set or remove, and does not notice a resize."""
    cluster.instances.add(instance("a", type="cpx32"))
    await cluster.add_node("a", provider_id="fake://1", labels={TYPE: "cpx22", ZONE: BY_HAND})
    made = controller(cluster, refresh_labels=refresh_labels)
    for _ in range(3):
        await made.refresh_all()
        await cluster.settle()
    labels = cluster.node("a")["metadata"]["labels"]
    assert (labels[TYPE], labels[ZONE], labels.get("instance.example/provided-by")) == found


async def test_a_copied_label_follows_the_servers(cluster: Cluster) -> None:
    await cluster.add_node("a", provider_id="fake://1")
    await cluster.add_node("b", provider_id="fake://2", labels={"team": "mine"})
    made = controller(cluster)
    for value in ("blue", "red"):
        for number, name in enumerate("ab", 1):
            copied = {"labels": {"team": value}, "followed_labels": frozenset({"team"})}
            cluster.instances.add(instance(name, number, **copied))
        await made.refresh_all()
        await cluster.settle()
        assert cluster.node("a")["metadata"]["labels"]["team"] == value
    assert cluster.node("b")["metadata"]["labels"]["team"] == "mine"


async def test_a_node_ip_that_is_gone_is_reported_and_labels_go_on(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    ip = {PROVIDED_NODE_IP: "10.9.9.9"}
    await cluster.add_node("a", provider_id="fake://1", annotations=ip)
    await controller(cluster, refresh_labels=True).refresh_all()
    assert cluster.events.reasons("a") == ["ProvidedNodeIPInvalid"]
    assert cluster.node("a")["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "cpx22"


async def test_refreshing_brings_nodes_without_provider_id_back(cluster: Cluster) -> None:
    async with running(controller(cluster, status_update_frequency=10)):
        await cluster.add_node("a")
        await cluster.settle(1)
        cluster.instances.add(instance("a"))
        await cluster.settle(11)
    assert cluster.node("a")["spec"]["providerID"] == "fake://1"


async def test_one_bad_node_does_not_stop_the_others(cluster: Cluster) -> None:
    for number, name in enumerate("abc", start=1):
        cluster.instances.add(instance(name, number))
        await cluster.add_node(name, provider_id=f"fake://{number}")
    cluster.instances.errors["a"] = CloudUnavailable("odd")
    cluster.transport.fail(ConnectionFailed(message="cut"), verb="patch", prefix=f"{NODES}/b", times=9)
    await controller(cluster).refresh_all()
    assert (cluster.addresses("a"), cluster.addresses("b")) == ([], [])
    assert (INTERNAL, "10.0.0.3") in cluster.addresses("c")


async def test_health_tells_of_a_cloud_that_cannot_be_listed(cluster: Cluster) -> None:
    made = controller(cluster, status_update_frequency=10)
    cluster.cloud.script.fail("list", CloudUnavailable("down"))
    async with running(made):
        await cluster.settle(5)
        assert made.healthy() is None
        await cluster.settle(30)
        assert "failed to list the machines" in (made.healthy() or "")
        cluster.cloud.script.heal("list")
        await cluster.settle(15)
        assert made.healthy() is None


async def test_what_was_found_out_about_a_node_is_not_written_to_its_namesake(cluster: Cluster) -> None:
    """A server, and its Node, may be made anew under the same name while we ask about the old one."""
    cluster.instances.add(instance("a", 1))
    await cluster.add_node("a", tainted=True)
    asked: list[str] = []

    async def during(name: str) -> None:
        asked.append(name)
        if len(asked) == 1:
            cluster.transport.remove(f"{NODES}/a")
            cluster.transport.put(NODES, node_object("a", tainted=True, annotations={"new": "yes"}))
        else:
            cluster.instances.remove("fake://1")
            cluster.instances.add(instance("a", 2))

    cluster.cloud.script.during("get", during)
    async with running(controller(cluster)):
        await cluster.settle(5)
    assert cluster.node("a")["metadata"]["annotations"] == {"new": "yes"}
    assert cluster.node("a")["spec"]["providerID"] == "fake://2"
    assert ("ExternalIP", "203.0.113.2") in cluster.addresses("a")


async def test_a_refresh_does_not_write_to_a_namesake(cluster: Cluster) -> None:
    cluster.instances.add(instance("a", 1))
    await cluster.add_node("a", provider_id="fake://1")

    async def during(_: str) -> None:
        cluster.transport.remove(f"{NODES}/a")
        cluster.transport.put(NODES, node_object("a", provider_id="fake://2"))

    cluster.cloud.script.during("list", during)
    await controller(cluster).refresh_all()
    assert cluster.addresses("a") == []
    assert cluster.node("a")["metadata"]["labels"] == {}


class Webhook(MemoryTransport):
    """An API server whose admission webhook undoes what is changed in a Node."""

    async def patch(self, path: str, body: Any, kind: Any) -> Any:
        undone = {"spec": self.read(f"{NODES}/a")["spec"]} if "status" not in path else {"status": {}}
        metadata = {key: value for key, value in body["metadata"].items() if key != "labels"}
        return await super().patch(path, {"metadata": metadata, **undone}, kind)


@pytest.mark.parametrize("what", ["introduction", "addresses", "labels"])
@pytest.mark.parametrize("refused", [True, False])
async def test_changes_without_effect_cost_few_calls(cluster: Cluster, what: str, refused: bool) -> None:
    new = what == "introduction"
    cluster.instances.add(instance("a"))
    await cluster.add_node("a", **({"tainted": True} if new else {"provider_id": "fake://1"}))
    if refused:
        path = f"{NODES}/a/status" if what == "addresses" else f"{NODES}/a"
        cluster.transport.fail(Forbidden(403, "Forbidden", "no"), verb="patch", prefix=path, times=9999)
    else:
        cluster.transport.__class__ = Webhook
    calls: list[int] = []
    async with running(controller(cluster)):
        for _ in range(2):
            for beat in range(360):
                item = cluster.node("a")
                item["metadata"]["annotations"]["beat"] = str(beat)
                cluster.transport.put(NODES, item)
                await asyncio.sleep(10)  # short: virtual time
            looks = cluster.cloud.script.count("get") if new else 0
            calls.append(len(cluster.writes()) + looks)
    assert calls[0] <= 20
    assert calls[1] - calls[0] <= 6, "two tries, each a look and two writes"


async def test_a_ready_node_without_its_machine_is_reported(cluster: Cluster) -> None:
    """As with a server that was recreated with the same name: Ready, but with wrong addresses."""
    cluster.instances.add(instance("b", 2))
    await cluster.add_node("a", provider_id="fake://1")
    await cluster.add_node("b", provider_id="fake://2")
    await cluster.add_node("off", provider_id="fake://3", ready="False")
    made = controller(cluster)
    await made.refresh_all()
    assert [event[:3] for event in cluster.events.all] == [("a", "Warning", "MachineNotFound")]
    cluster.transport.remove(f"{NODES}/b")
    await cluster.settle()
    await made.refresh_all()
    assert len(cluster.events.all) == 1, "while no machine is there it says nothing of this one"


@given(st.integers(0, 300), st.integers(1, 50))
def test_every_node_is_in_one_part_and_parts_are_of_one_size(number: int, most: int) -> None:
    nodes = [Node(ObjectMeta(name=str(index))) for index in range(number)]
    parts = evenly(nodes, most)
    assert [node for part in parts for node in part] == nodes
    sizes = [len(part) for part in parts]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("nodes", "lists"), [(0, 12), (1, 12), (500, 12), (501, 6), (1000, 6), (1001, 4), (100_000, 4)]
)
def test_the_larger_the_cluster_the_more_runs_one_list_serves(nodes: int, lists: int) -> None:
    """Every five minutes for an hour; each run takes the list that is there if it is young enough."""
    made, listed_at = 0, float("-inf")
    for at in range(0, 3600, 300):
        if at - listed_at > accepted_age(nodes, 300.0):
            made, listed_at = made + 1, at
    assert made == lists


class Remembering(FakeInstances):
    """Machines that remember how old an answer was allowed to be."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.ages: list[float] = []

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        self.ages.append(accepted_age)
        return await super().get(node, accepted_age=accepted_age)

    async def list(self, nodes: Sequence[NodeView], *, accepted_age: float) -> Mapping[str, Any]:
        self.ages.append(accepted_age)
        return await super().list(nodes, accepted_age=accepted_age)


@pytest.fixture
def remembering(cluster: Cluster) -> Remembering:
    cluster.cloud.instances = instances = Remembering()
    instances.add(instance("a"))
    return instances


async def test_the_larger_the_cluster_the_older_a_list_may_be(
    cluster: Cluster, remembering: Remembering
) -> None:
    for number in range(501):
        cluster.transport.put(NODES, node_object(f"n{number}", provider_id=f"fake://{number + 1}"))
    await cluster.settle()
    await controller(cluster).refresh_all()
    assert min(remembering.ages) == 450.0


@pytest.mark.parametrize("queued", [0.5, 3, 40])
async def test_an_answer_is_never_older_than_the_node(
    cluster: Cluster, remembering: Remembering, queued: float
) -> None:
    """An earlier one may describe a former machine of that name, and a provider ID is never corrected."""
    made = controller(cluster)
    await cluster.add_node("a", tainted=True)
    await asyncio.sleep(queued)
    await made.reconcile("a")
    assert remembering.ages == [pytest.approx(queued, abs=0.1)]


async def test_after_a_failure_only_a_new_answer_helps(cluster: Cluster, remembering: Remembering) -> None:
    made = controller(cluster)
    await cluster.add_node("b", tainted=True)
    await asyncio.sleep(40)
    with pytest.raises(NodeNotInitialized) as failure:
        await made.reconcile("b")
    assert isinstance(failure.value.__cause__, InstanceNotFound)
    made.queue.add_rate_limited("b")
    remembering.add(instance("b", 2))
    await made.reconcile("b")
    assert remembering.ages[1] == 10.0


async def test_a_copy_that_lags_behind_does_not_start_it_all_again(
    cluster: Cluster, remembering: Remembering
) -> None:
    await cluster.add_node("a", tainted=True)
    frozen = cluster.nodes = Informer(cluster.transport, NODES, Node)
    async with running(frozen):
        await frozen.synced.wait()
    made = controller(cluster)
    await made.reconcile("a")
    writes = len(cluster.writes("a"))
    await made.reconcile("a")
    assert len(remembering.ages) == 1
    assert len(cluster.writes("a")) == writes
    assert cluster.events.reasons() == ["Synced"]


async def test_a_node_that_is_tainted_once_more_is_initialized_once_more(cluster: Cluster) -> None:
    cluster.instances.add(instance("a"))
    made = controller(cluster)
    for _ in range(2):
        await cluster.add_node("a", tainted=True)
        await made.reconcile("a")
        assert cluster.taints("a") == []


async def test_a_change_that_always_conflicts_ends_after_some_tries(cluster: Cluster) -> None:
    await cluster.add_node("a", taints=({"key": "x", "effect": "NoSchedule", "value": "old"},))
    item = decode_object(cluster.node("a"), Node)
    taint = Taint(key="x", effect="NoSchedule", value="new")
    cluster.transport.fail(Conflict(409, "Conflict", "changed"), verb="patch", times=TRIES)
    with pytest.raises(Conflict):
        await update_node(cluster.transport, item, lambda node: add_taint(node, taint))
    changed = await update_node(cluster.transport, item, lambda node: add_taint(node, taint))
    assert changed is not None
    assert [taint.value for taint in changed.spec.taints] == ["new"]
    assert await update_node(cluster.transport, changed, lambda node: add_taint(node, taint)) is None

"""How fresh the cloud's answer must be when a Node is initialized: one list serves all that come together."""

import asyncio

import pytest
from fake_cluster import NODES, Cluster, instance

from ccm.cloud import Instance, InstanceNotFound, NodeView
from ccm.controllers.names import UNINITIALIZED_TAINT
from ccm.controllers.node import NodeController, NodeNotInitialized
from ccm.kube.informer import Informer
from ccm.kube.objects import Node
from ccm.testing.fake_cloud import FakeInstances, Script

pytestmark = pytest.mark.looptime


class Remembering(FakeInstances):
    """Machines that remember how old an answer was allowed to be."""

    def __init__(self) -> None:
        super().__init__(Script())
        self.ages: list[float] = []

    async def get(self, node: NodeView, *, accepted_age: float) -> Instance:
        self.ages.append(accepted_age)
        return await super().get(node, accepted_age=accepted_age)


def controller(cluster: Cluster, instances: Remembering) -> NodeController:
    return NodeController(instances, cluster.transport, cluster.nodes, cluster.events)


@pytest.mark.parametrize("queued", [0.5, 3, 40])
async def test_an_answer_is_never_older_than_the_node(cluster: Cluster, queued: float) -> None:
    """An earlier one may describe a former machine of that name, and a provider ID is never corrected."""
    instances = Remembering()
    instances.add(instance("a"))
    made = controller(cluster, instances)
    await cluster.add_node("a", tainted=True)
    await asyncio.sleep(queued)
    await made.reconcile("a")
    assert instances.ages == [pytest.approx(queued, abs=0.1)]


async def test_after_a_failure_only_a_new_answer_helps(cluster: Cluster) -> None:
    instances = Remembering()
    made = controller(cluster, instances)
    await cluster.add_node("a", tainted=True)
    await asyncio.sleep(40)
    with pytest.raises(NodeNotInitialized) as failure:
        await made.reconcile("a")
    assert isinstance(failure.value.__cause__, InstanceNotFound)
    made.queue.add_rate_limited("a")
    instances.add(instance("a"))
    await made.reconcile("a")
    assert instances.ages[1] == 10.0


async def test_a_copy_that_lags_behind_does_not_start_it_all_again(cluster: Cluster) -> None:
    instances = Remembering()
    instances.add(instance("a"))
    await cluster.add_node("a", tainted=True)
    frozen: Informer[Node] = Informer(cluster.transport, NODES, Node)
    listing = asyncio.create_task(frozen.run())
    await frozen.synced.wait()
    listing.cancel()
    await asyncio.gather(listing, return_exceptions=True)
    made = NodeController(instances, cluster.transport, frozen, cluster.events)
    await made.reconcile("a")
    writes = len(cluster.writes("a"))
    await made.reconcile("a")
    assert len(instances.ages) == 1
    assert len(cluster.writes("a")) == writes
    assert cluster.events.reasons() == ["Synced"]


async def test_a_node_that_is_tainted_once_more_is_initialized_once_more(cluster: Cluster) -> None:
    instances = Remembering()
    instances.add(instance("a"))
    made = controller(cluster, instances)
    await cluster.add_node("a", tainted=True)
    await made.reconcile("a")
    await cluster.settle()
    body = {"spec": {"taints": [{"key": UNINITIALIZED_TAINT, "effect": "NoSchedule"}]}}
    await cluster.transport.patch(f"{NODES}/a", body, Node)
    await cluster.settle()
    await made.reconcile("a")
    assert cluster.taints("a") == []

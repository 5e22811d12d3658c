"""Thousands of Nodes are refreshed in parts."""

from __future__ import annotations

import pytest
from fake_cluster import NODES, Cluster, instance
from fake_cluster import node as node_object
from hypothesis import given
from hypothesis import strategies as st

from ccm.controllers.node import NodeController, accepted_age
from ccm.controllers.nodes import evenly
from ccm.kube.objects import Node, ObjectMeta


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


@pytest.mark.looptime
async def test_the_controller_says_so_to_the_cloud(cluster: Cluster) -> None:
    ages: list[float] = []
    ask = cluster.instances.list

    async def listed(nodes, *, accepted_age: float):
        ages.append(accepted_age)
        return await ask(nodes, accepted_age=accepted_age)

    cluster.instances.list = listed  # type: ignore[method-assign]
    for number in range(501):
        cluster.instances.add(instance(f"n{number}", number + 1))
        cluster.transport.put(NODES, node_object(f"n{number}", provider_id=f"fake://{number + 1}"))
    await cluster.settle()
    made = NodeController(cluster.instances, cluster.transport, cluster.nodes, cluster.events)
    await made.refresh_all()
    assert min(ages) == 450.0

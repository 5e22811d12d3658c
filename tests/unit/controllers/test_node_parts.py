"""Thousands of Nodes are refreshed in parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ccm.controllers.node import evenly
from ccm.kube.objects import Node, ObjectMeta


@given(st.integers(0, 300), st.integers(1, 50))
def test_every_node_is_in_one_part_and_parts_are_of_one_size(number: int, most: int) -> None:
    nodes = [Node(ObjectMeta(name=str(index))) for index in range(number)]
    parts = evenly(nodes, most)
    assert [node for part in parts for node in part] == nodes
    sizes = [len(part) for part in parts]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1

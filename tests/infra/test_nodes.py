import json
import re
import time

import pytest
from control_servers import node
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.ready_nodes import lacking, read_nodes, view
from ccm_pulumi.lib.errors import RemoteCommandError

TAINT = "node.cloudprovider.kubernetes.io/uninitialized"


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (node(), "^$"),
        (node(taints=[{"key": "other"}]), "^$"),
        ({"metadata": {"name": "n"}}, "has not initialized"),
        (node(taints=[{"key": TAINT}]), "has not initialized"),
        (node(providerID=""), "has not initialized"),
        (node(ready="False", message="disk full"), "^the Node is not ready: disk full$"),
        (node(ready="Unknown"), "its kubelet reports no status"),
    ],
)
def test_what_a_node_lacks(found, lacks):
    assert re.search(lacks, view(found).lacks)


@given(
    wanted=st.sets(st.sampled_from("abcd")), there=st.dictionaries(st.sampled_from("abcdef"), st.booleans())
)
def test_exactly_the_incomplete_ones_are_lacking(wanted, there):
    nodes = {name: view(node(name, ready="True" if ready else "False")) for name, ready in there.items()}
    missing = lacking(dict.fromkeys(wanted, "7"), nodes)
    assert set(missing) == {name for name in wanted if not there.get(name)}
    assert all("not joined" in missing[name] for name in wanted - there.keys())


def test_the_node_of_a_former_server_is_not_this_ones():
    old = view(node("w"))
    assert "older server with the ID 7" in lacking({"w": "8"}, {"w": old})["w"]
    assert lacking({"w": "7"}, {"w": old}) == {}


class Restarting:
    """The shell of a control server whose API server refuses the first request."""

    failures = 1

    async def run(self, *_, **__):
        if self.failures:
            self.failures -= 1
            raise RemoteCommandError("192.0.2.1", "listing the nodes", "failed with code 1", "refused")
        return json.dumps({"items": [node("n")]})


async def test_a_wait_for_nodes_outlasts_a_restart_of_k3s():
    assert list(await read_nodes(Restarting(), time.monotonic() + 60)) == ["n"]
    with pytest.raises(RemoteCommandError):
        await read_nodes(Restarting())

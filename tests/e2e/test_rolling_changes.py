import pytest

from tests.e2e import workload
from tests.e2e.cluster_state import changed, kubelets
from tests.e2e.looks import answers
from tests.e2e.probing_clients import ServiceClient

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(900)]

OLDER, NEWER = "1.36", "1.37"


def configure(clone, **pool):
    clone.configure(pools=[{"name": "a", "count": 2, **pool}])


def order(printed, *steps):
    """Where in what was printed each step first stands."""
    places = [printed.find(step) for step in steps]
    assert -1 not in places, (steps, printed)
    return places


@pytest.fixture(scope="module")
def address(clone):
    configure(clone)
    clone.dev("up", "--kubernetes", OLDER)
    return workload.deploy(clone)


def test_replacing_all_workers_loses_few_requests(clone, address):
    before = clone.servers()
    configure(clone, serverType="cpx32", image="debian-12")
    with ServiceClient(address) as client:
        printed = clone.dev("up").stdout
    after = clone.servers()
    print(f"recreated: {len(client.lost)} of {len(client.calls)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    types = {name: server["server_type"]["name"] for name, server in after.items()}
    assert types == {"control": "cpx22", "a-1": "cpx32", "a-2": "cpx32"}
    assert all(after[name]["id"] != before[name]["id"] for name in ("a-1", "a-2"))
    assert after["control"]["id"] == before["control"]["id"]
    places = order(
        printed, "Server a-1 replaced", "ReadyAgain a-1 updated", "Departure a-2 deleting original"
    )
    assert places == sorted(places)
    again = clone.dev("up").stdout
    assert not changed(again), again


def test_an_upgrade_of_k3s_loses_few_requests(clone, address):
    assert all(version.startswith(f"v{OLDER}.") for version in kubelets(clone).values())
    ids = clone.server_ids()
    with ServiceClient(address) as client:
        printed = clone.dev("up", "--kubernetes", NEWER).stdout
    print(f"upgraded: {len(client.lost)} of {len(client.calls)} requests were lost")
    assert client.lost == []
    assert client.answered > 1000
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(clone).values())
    assert clone.server_ids() == ids
    places = order(
        printed,
        "K3sServer control updated",
        "K3sAgent a-1 updating",
        "ReadyAgain a-1 updated",
        "K3sAgent a-2 updating",
        "ReadyAgain a-2 updated",
    )
    assert places == sorted(places)
    for node in clone.nodes().values():
        assert not node["spec"].get("unschedulable")
        assert "ccm-from-scratch/upgrading" not in node["metadata"].get("annotations", {})
        assert "node.kubernetes.io/exclude-from-external-load-balancers" not in node["metadata"]["labels"]


def test_a_way_down_is_refused_before_anything_happens(clone, address):
    clone.settle()
    before = clone.writes()
    refused = clone.dev("up", "--kubernetes", OLDER, check=False)
    assert refused.returncode
    assert "ccm-from-scratch:k3sVersion" in refused.stdout
    assert "k3s does not support downgrades" in refused.stdout
    assert clone.writes() == before
    assert all(version.startswith(f"v{NEWER}.") for version in kubelets(clone).values())
    assert answers(address)

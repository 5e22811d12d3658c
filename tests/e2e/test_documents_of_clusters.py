import pytest

from tests.e2e.cluster_changes import CONTROLS, NEWER, OLDER
from tests.e2e.cluster_state import changed, identity, kubelets, members
from tests.e2e.reader import Reading

pytestmark = [pytest.mark.nightly, pytest.mark.machines, pytest.mark.cluster, pytest.mark.timeout(1800)]

PAGES = ("docs/guides/control-plane.md", "docs/guides/upgrades.md")


def locations(clone):
    return {role: server["location"]["name"] for role, server in clone.servers().items()}


@pytest.fixture(scope="module")
def one(clone):
    clone.configure(controlCount=1, workerCount=1)
    clone.dev("up", "--kubernetes", OLDER)
    clone.settle()
    return clone


def assert_only(clone, recreated, before, cluster):
    """Those servers are others, and nothing else of the cloud or the cluster is."""
    after = clone.server_ids()
    assert after.keys() == before.keys() == {*CONTROLS, "worker-1"}
    assert {name for name in after if after[name] != before[name]} == recreated
    assert identity(clone) == cluster
    assert members(clone) == {*CONTROLS}


def test_a_cluster_gets_three_control_servers_which_are_replaced_moved_and_upgraded(one):
    cluster = identity(one)
    with Reading(one, PAGES[0]) as page:
        said = page.until("## The address of the Kubernetes API")
        assert "The load balancer of the Kubernetes API is open to the Internet" in said
        assert set(one.server_ids()) == {*CONTROLS, "worker-1"}
        assert members(one) == {*CONTROLS}
        assert identity(one) == cluster

        before = one.server_ids()
        replaced = page.until("### One that runs")
        assert "K3sServer control replaced" in replaced
        # agents only record the other control server
        others = [line for line in changed(replaced) if not line.endswith("[diff: ~controls]")]
        assert not [line for line in others if "kubernetes:" in line or "K3sAgent" in line]
        assert_only(one, {"control"}, before, cluster)

        before = one.server_ids()
        page.until("## Moving to another location")
        assert_only(one, {"control-2"}, before, cluster)

        before = one.server_ids()
        page.until("## Back to one")
        assert_only(one, set(before), before, cluster)
        assert set(locations(one).values()) == {"nbg1"}

        before = one.server_ids()
        assert {*kubelets(one).values()} == {f"v{OLDER}"}
        with Reading(one, PAGES[1]) as upgrades:
            upgrades.rest()
        assert_only(one, set(), before, cluster)
        assert {*kubelets(one).values()} == {f"v{NEWER}"}

        page.rest()
    assert set(one.server_ids()) == {"control", "worker-1"}
    assert set(one.nodes()) == {"ccm-from-scratch-control", "ccm-from-scratch-worker-1"}
    assert identity(one) == cluster
    assert not changed(one.dev("up").stdout)

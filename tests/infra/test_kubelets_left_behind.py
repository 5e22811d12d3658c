import asyncio
import json

import pytest
from control_servers import PROPS
from fake_programs import programs
from hypothesis import given
from hypothesis import strategies as st

from ccm_pulumi.cluster.k3s_installation import K3sServerProvider
from ccm_pulumi.cluster.k3s_versions import left_behind
from ccm_pulumi.config.k3s import Release
from ccm_pulumi.lib.errors import RemoteCommandError, VersionError

BEFORE, WANTED = "v1.35.4+k3s1", "v1.36.3+k3s1"
minors = st.integers(20, 40)


@given(old=st.lists(minors, max_size=5), installed=minors, wanted=minors)
def test_a_kubelet_may_be_three_minor_versions_older(old, installed, wanted):
    kubelets = {f"n-{index}": f"v1.{minor}.9+k3s1" for index, minor in enumerate(old)}
    expected = [name for name, minor in zip(kubelets, old, strict=True) if wanted - minor > 3]
    here, there = f"v1.{installed}.1+k3s1", f"v1.{wanted}.0+k3s1"
    changes = installed != wanted
    assert left_behind(kubelets, here, Release("u", "", there)) == (expected if changes else [])
    assert left_behind(kubelets, here, Release("u", f"v1.{wanted}", "")) == (expected if changes else [])
    assert left_behind(kubelets, here, Release("u", "stable", ""), there) == (expected if changes else [])
    # where a channel leads is unknown
    assert left_behind(kubelets, here, Release("u", "stable", "")) == []


def test_of_whom_nothing_is_known_is_not_left_behind():
    kubelets = {"new": "", "own": "v1.20-of-mine", "plain": "v1.32.1"}
    assert left_behind(kubelets, "", Release("u", "", WANTED)) == ["plain"]


@pytest.fixture
def upgrade(tmp_path, monkeypatch, host):
    """Updates the k3s of a control server in whose cluster a Node has a kubelet of some version."""
    path = programs(tmp_path, ip="echo ' 10.0.0.7/32'", curl="echo fetching >&2; exit 1")
    monkeypatch.setenv("PATH", path)

    async def update(kubelet, *, answers=True, **changes):
        burst = {"metadata": {"name": "burst-1"}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}}
        (tmp_path / "nodes").write_text(json.dumps({"items": [burst]}))
        k3s = f"""case "$*" in
  --version) echo "k3s version {BEFORE} (abc)" ;;
  *"get nodes "*) {f"cat {tmp_path}/nodes" if answers else "exit 1"} ;;
esac"""
        programs(tmp_path, k3s=k3s)
        olds = {**PROPS, "address": host.address, "private_key": host.private_key, "version": BEFORE}
        await asyncio.to_thread(K3sServerProvider().update, "7", olds, {**olds, "version": WANTED, **changes})

    return update


async def test_a_node_that_would_be_left_behind_is_named_before_the_installer_is_fetched(upgrade):
    with pytest.raises(
        VersionError, match=r"k3sVersion: .*: burst-1 \(v1\.32\.6\+k3s1\)\. If the cluster-autoscaler"
    ) as it:
        await upgrade("v1.32.6+k3s1")
    assert str(it.value).endswith("the cluster was not changed")


@pytest.mark.parametrize(
    ("kubelet", "change"),
    [
        ("v1.33.0+k3s1", {}),
        ("v1.32.6+k3s1", {"version": "v1.35.5+k3s1"}),
        # it may be what mends an API that does not answer
        ("v1.32.6+k3s1", {"answers": False}),
    ],
)
async def test_other_nodes_do_not_prevent_the_installation(upgrade, kubelet, change):
    with pytest.raises(RemoteCommandError, match="fetching"):
        await upgrade(kubelet, **change)

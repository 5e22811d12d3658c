import asyncio
import json
import socket
import subprocess
from pathlib import Path

import pytest
from pretended import commands_below

from sandbox.errors import SandboxError
from sandbox.kubernetes.controlplane import ControlPlane
from sandbox.kubernetes.hollow_nodes import HollowNode, HollowNodes
from sandbox.kubernetes.toolchain import Toolchain
from tests.child_processes import script
from tests.waiting import until

pytestmark = pytest.mark.slow

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


async def test_hollow_nodes_register_like_a_kubelet_with_an_external_cloud(
    kubernetes: Toolchain, tmp_path: Path
) -> None:
    async with (
        ControlPlane(kubernetes, tmp_path) as cluster,
        HollowNodes(cluster.url, tmp_path / "tls") as nodes,
    ):
        both = HollowNode("a", node_ip="10.0.0.2"), HollowNode("b")
        await asyncio.gather(*map(nodes.power_on, both))
        await until(lambda: cluster.api().get("/api/v1/nodes/a")["spec"].get("podCIDR"))
        node = cluster.api().get("/api/v1/nodes/a")
        lease = cluster.api().get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a")

    assert UNINITIALIZED in {taint["key"] for taint in node["spec"]["taints"]}
    assert node["spec"]["podCIDR"].startswith("10.244.")
    assert node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] == "10.0.0.2"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
    assert "providerID" not in node["spec"]
    assert lease["spec"]["holderIdentity"] == "a"


async def test_data_survives_a_restart(
    kubernetes: Toolchain, kubernetes_version: str, tmp_path: Path
) -> None:
    async with ControlPlane(kubernetes, tmp_path) as cluster:
        url = cluster.url
        cluster.api().request("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert not commands_below(tmp_path)

    async with ControlPlane(kubernetes, tmp_path) as cluster:
        assert cluster.api().get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
        assert cluster.url == url, "a kubeconfig that was given away must stay valid"
        assert cluster.failed() is None
        command = [kubernetes.bin / "kubectl", f"--kubeconfig={cluster.kubeconfig}", "version"]
        version = await asyncio.to_thread(subprocess.check_output, command, text=True)
    assert f"Client Version: v{kubernetes_version}\n" in version
    assert f"Server Version: v{kubernetes_version}\n" in version
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600


async def test_a_dead_component_is_named_with_its_log(kubernetes: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "etcd").write_text("a file where etcd wants a folder")
    with pytest.raises(SandboxError, match=r"etcd ended(?s:.*)\n.+"):
        await ControlPlane(kubernetes, tmp_path).start()
    assert not commands_below(tmp_path)


async def test_components_end_without_waiting(tmp_path: Path) -> None:
    script(tmp_path / "bin/etcd", "trap '' TERM\nwhile :; do sleep 600; done")
    (tmp_path / "bin" / "kube-apiserver").symlink_to("etcd")
    plane = ControlPlane(Toolchain(tmp_path), tmp_path / "plane")
    starting = asyncio.create_task(plane.start())
    await until(lambda: len(commands_below(tmp_path)) == 2)
    starting.cancel()
    await until(lambda: len(commands_below(tmp_path)) < 2)  # it stops what it has started
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not commands_below(tmp_path)
    for port in json.loads((tmp_path / "plane" / "ports.json").read_text()).values():
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))
